-- Purpose: brings the allowance of an account up to date, when its window has ended by Redis' clock, or the account has
-- another plan, or its plan gives none any more. An account that is suspended or unknown stays as it is.
-- KEYS: account, hold rows, journal
-- ARGV: 1 the plan that the account was on;
--       2 `<tokens> <every> <1 = the rest of the last one stays>` of its allowance, or `- - 0`, and then
--         `<start> <end>` of the day, the week and the month, in ms
-- Reply: ok, now: the allowance is right | plan, now, actual
--      | windows, now: Redis' time is outside the window of ARGV 2 that is needed

local plan, offer = ARGV[1], ARGV[2]
local tokens, every, keeps = match(offer, '^(%S+) (%a+) (%d)')

local now = now_ms()
local account, status, actual_plan = read_account('status', 'plan')
account.plan = actual_plan or 'default'
if account.plan ~= plan then return { 'plan', now, account.plan } end
if not account.id or status == 'suspended' then return { 'ok', now } end
local allowance = read_allowance(account)
if not allowance and not tokens then return { 'ok', now } end
allowance = allowance or { left = 0, used = 0, ends = 0, plan = plan }
local had, used, ends = allowance.left, allowance.used, allowance.ends
local is_over, is_of_plan = now >= ends, allowance.plan == plan
if not is_over and is_of_plan then return { 'ok', now } end

-- How many tokens the allowance should have now.
local target = had
if tokens then
  local start, new_ends = window_now(offer, every, now)
  if not start then return { 'windows', now } end
  -- Only a window that begins at the last one's end, or later, renews. If it began earlier (in another time zone, or as a
  -- longer one), the allowance lasts until the later of both ends. Another plan gives its tokens less what was used. So
  -- nothing is renewed twice.
  local kept = keeps == '1' and had or 0
  if is_over and start >= ends then
    target, used = number(tokens) + kept, 0
  elseif not is_of_plan then
    target = math.max(number(tokens) - used, kept)
  end
  ends = math.max(ends, new_ends)
elseif had == 0 then
  return { 'ok', now }
else
  target = 0
end

account.allowance = allowance
local drawn = draw_beyond_balance(account)
local missing = math.min(target, MAX_AMOUNT) - allowance.left
local amount = math.min(missing, MAX_AMOUNT - account.granted)
allowance.used, allowance.ends, allowance.plan, allowance.is_changed = used, ends, plan, true
-- If more is left than there should be, takes the excess back, as far as no open hold has reserved it. If some of it is
-- reserved, the allowance gets no plan: so it is renewed again once some of that has become free.
if missing < 0 then
  local excess, free = -missing, available_of(account)
  amount = -math.min(excess, free)
  if excess > free then allowance.plan = '' end
end
account.granted, allowance.left = account.granted + amount, allowance.left + amount
local balance = account.granted - account.spent
local repaid = book_repayment(account)

if amount ~= 0 or drawn ~= 0 then
  call('XADD', journal, '*', 'type', 'allowance', 'amount', int(amount),
    'balance', int(balance), 'allowance', int(drawn), 'meta', '{}')
end
write_repayment(repaid)
write_sums(account, { 'granted', int(account.granted) })
return { 'ok', now }
