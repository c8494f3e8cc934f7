-- Purpose: makes a top-up, an adjustment or a refund, once for each idempotency id, and a top-up once for each payment.
-- Never lets the balance fall below what is held. From the new tokens the account first pays what it owes, in a journal
-- entry of its own. A refund takes from what was spent, all others change what was granted.
-- KEYS: account, hold rows, journal, the answer that is stored for the idempotency id, payments
-- ARGV: 1 amount, signed; 2 hash of the request; 3 type: topup | adjustment | refund; 4 meta;
--       5 when the credit was first made, ms: one older than a day without a stored answer is refused as late;
--       6 the payment's reference, or '';
--       7 '1' = it is sent for the first time: then a refund of more than was spent is refused. A refund that is sent
--         again is not, because Redis may have forgotten what was spent, too
-- Reply: ok, now, entry id, amount, balance, 1 = it was made before
--      | late, now | account_not_found, now | account_deleted, now | idempotency_key_reused, now
--      | reference_reused, now, entry id, amount | invalid_parameter, now
--      | insufficient_balance, now, available, owed | more_than_spent, now, what was spent

local answer_key, payments = KEYS[4], KEYS[5]
local amount, hash, kind, meta, first_made = tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local reference, is_first = ARGV[6], ARGV[7] == '1'
local is_refund = kind == 'refund'

local now = now_ms()
local account = read_account()
account.allowance = read_allowance(account)
if not account.id then return { 'account_not_found', now } end
local answered = call('GET', answer_key)
if answered then
  local of_hash, entry, of_amount, balance = match(answered, '^(%S+) (%S+) (%S+) (%S+)$')
  if of_hash ~= hash then return { 'idempotency_key_reused', now } end
  return { 'ok', now, entry, of_amount, balance, 1 }
end
local paid = reference ~= '' and call('HGET', payments, reference)
if paid then
  local entry, of_amount, balance = match(paid, '^(%S+) (%S+) (%S+)$')
  if number(of_amount) ~= amount then return { 'reference_reused', now, entry, of_amount } end
  -- A Redis whose memory is full can still tell of the payment.
  redis.pcall('SET', answer_key, hash .. ' ' .. paid, 'EX', MARK_SECONDS)
  return { 'ok', now, entry, of_amount, balance, 1 }
end
if call('HEXISTS', account_key, 'closed_at') == 1 then return { 'account_deleted', now } end
if now - first_made > DAY_MS then return { 'late', now } end
if is_refund and is_first and amount > account.spent then
  return { 'more_than_spent', now, int(math.max(0, account.spent)) }
end
local before = account.granted - account.spent
local is_too_much = amount > MAX_AMOUNT - before
  or (not is_refund and amount > MAX_AMOUNT - account.granted)
if is_too_much then return { 'invalid_parameter', now } end
local available = available_of(account)
if available + amount < 0 then
  return { 'insufficient_balance', now, int(available), int(account.owed) }
end

-- Twice: before the sums change, so that a top-up does not become a part of an allowance that was too large; and after,
-- because an adjustment may leave less balance than allowance.
local drawn = draw_beyond_balance(account)
if is_refund then
  account.spent = account.spent - amount
else
  account.granted = account.granted + amount
end
drawn = drawn + draw_beyond_balance(account)
local balance = account.granted - account.spent
local repaid = book_repayment(account)
local more = {}
if drawn > 0 then add_field(more, 'allowance', int(drawn)) end
write_sums(account, { 'granted', int(account.granted) })
-- A refund's type is `charge`: by the type, gateways of earlier versions tell which sum an entry changes.
if is_refund then add_field(more, 'as', kind) end
local entry = call('XADD', journal, '*', 'type', is_refund and 'charge' or kind, 'amount', int(amount),
  'balance', int(balance), 'meta', meta, unpack(more))
write_repayment(repaid)
local answer = entry .. ' ' .. int(amount) .. ' ' .. int(balance)
call('SET', answer_key, hash .. ' ' .. answer, 'EX', MARK_SECONDS)
if reference ~= '' then call('HSET', payments, reference, answer) end
return { 'ok', now, entry, int(amount), int(balance), 0 }
