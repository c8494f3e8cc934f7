-- Purpose: makes a top-up or an adjustment, once for each idempotency id, and never lets the balance fall below what is
-- held. From the new tokens the account first pays what it owes, in a journal entry of its own.
-- KEYS: account, hold leases, hold rows, journal, the answer that is stored for the idempotency id
-- ARGV: 1 amount, signed; 2 hash of the request; 3 type: topup | adjustment; 4 meta;
--       5 when the credit was first made, ms: one older than a day without a stored answer is refused as late
-- Reply: ok, now, entry id, amount, balance, 1 = it was made before
--      | late, now | account_not_found, now | account_deleted, now | idempotency_key_reused, now
--      | invalid_parameter, now
--      | insufficient_balance, now, available, owed

local answer_key = KEYS[5]
local amount, hash, kind, meta, first_made = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])

local now = now_ms()
local account = read_account()
if not account.id then return { 'account_not_found', now } end
local answered = call('GET', answer_key)
if answered then
  local of_hash, entry, of_amount, balance = match(answered, '^(%S+) (%S+) (%S+) (%S+)$')
  if of_hash ~= hash then return { 'idempotency_key_reused', now } end
  return { 'ok', now, entry, of_amount, balance, 1 }
end
if call('HEXISTS', account_key, 'closed_at') == 1 then return { 'account_deleted', now } end
if now - first_made > DAY_MS then return { 'late', now } end
if amount > MAX_AMOUNT - account.granted then return { 'invalid_parameter', now } end
local available = available_of(account)
if available + amount < 0 then
  return { 'insufficient_balance', now, int(available), int(account.owed) }
end

-- Before, so that a top-up does not become a part of the allowance.
local drawn = draw_beyond_balance(account)
account.granted = account.granted + amount
drawn = drawn + draw_beyond_balance(account)
local balance = account.granted - account.spent
local repaid = book_repayment(account)
local more = {}
if drawn > 0 then more = { 'allowance', int(drawn) } end
write_sums(account)
local entry = call('XADD', journal, '*', 'type', kind, 'amount', int(amount),
  'balance', int(balance), 'meta', meta, unpack(more))
write_repayment(repaid)
call('SET', answer_key, hash .. ' ' .. entry .. ' ' .. int(amount) .. ' ' .. int(balance),
  'EX', MARK_SECONDS)
return { 'ok', now, entry, int(amount), int(balance), 0 }
