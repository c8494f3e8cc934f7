-- Purpose: brings the allowance of an account up to date, when its window has ended by Redis' clock, or the account has
-- another plan, or its plan gives none any more. An account that is suspended or unknown stays as it is.
-- KEYS: account, hold leases, hold rows, journal
-- ARGV: 1 the plan that the account was on;
--       2 `<tokens> <every> <1 = the rest of the last one stays>` of its allowance, or `- - 0`, and then
--         `<start> <end>` of the day, the week and the month, in ms
-- Reply: ok, now: the allowance is right | plan, now, actual
--      | clock, now: Redis' time is not in the window of 2 that is needed

local plan, offer = ARGV[1], ARGV[2]

-- Returns how many tokens the allowance should have now, and when its window ends. Returns nil if the allowance is
-- right, and `clock` if Redis' time is not in the window of that length that the gateway has sent.
local function find_renewal(account, offer, now)
  local tokens, every, keeps = match(offer, '^(%S+) (%a+) (%d)')
  local had = account.allowance
  if not had and not tokens then return nil end
  had = had or { left = 0, used = 0, ends = 0, plan = account.plan }
  local is_over = now >= had.ends
  if not is_over and had.plan == account.plan then return nil end
  if not tokens then
    if had.left == 0 then return nil end
    return { target = 0, used = had.used, ends = had.ends, had = had }
  end
  local start, ends = window_now(offer, every, now)
  if not start then return 'clock' end
  -- Only a window that began after the last one's end renews. One that began before (of another time zone, or longer)
  -- carries the last one on, to the later of both ends. Another plan gives its tokens less what was used. So nothing is
  -- renewed twice.
  local used, target = had.used, had.left
  if is_over and start >= had.ends then
    target = number(tokens) + (keeps == '1' and had.left or 0)
    used = 0
  elseif had.plan ~= account.plan then
    target = math.max(number(tokens) - used, keeps == '1' and had.left or 0)
  end
  return { target = math.min(target, MAX_AMOUNT), used = used, ends = math.max(had.ends, ends), had = had }
end

-- Books what find_renewal has found. If more is left than there should be, takes the difference back, as far as no open
-- hold has reserved it. If some of it is reserved, the allowance gets no plan: so it is renewed again once some of that
-- has become free.
local function book_renewal(account, renewal)
  local had = renewal.had
  local allowance = { left = had.left, used = had.used, ends = renewal.ends, plan = account.plan }
  account.allowance = allowance
  renewal.drawn = draw_beyond_balance(account)
  allowance.used = renewal.used
  local missing = renewal.target - allowance.left
  local amount = math.min(missing, MAX_AMOUNT - account.granted)
  if missing < 0 then
    amount = -math.min(-missing, available_of(account))
    if amount > missing then allowance.plan = '' end
  end
  account.granted, allowance.left = account.granted + amount, allowance.left + amount
  allowance.is_changed = true
  renewal.amount, renewal.balance = amount, account.granted - account.spent
  renewal.repaid = book_repayment(account)
end

local function write_renewal(account, renewal)
  if renewal.amount ~= 0 or renewal.drawn ~= 0 then
    call('XADD', journal, '*', 'type', 'allowance', 'amount', int(renewal.amount),
      'balance', int(renewal.balance), 'allowance', int(renewal.drawn), 'meta', '{}')
  end
  write_repayment(renewal.repaid)
  write_sums(account, { 'granted', int(account.granted) })
end

local now = now_ms()
local account, status, actual_plan = read_account('status', 'plan')
account.plan, account.allowance = actual_plan or 'default', read_allowance(account)
if account.plan ~= plan then return { 'plan', now, account.plan } end
if not account.id or status == 'suspended' then return { 'ok', now } end
local renewal = find_renewal(account, offer, now)
if renewal == 'clock' then return { 'clock', now } end
if renewal then
  book_renewal(account, renewal)
  write_renewal(account, renewal)
end
return { 'ok', now }
