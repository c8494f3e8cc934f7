-- Purpose: ends the books of a closed account, once no hold of it is open: one adjustment takes what it has, or pays
-- what it owes. After this, nothing is charged to it any more. Calling it again has no further effect.
-- KEYS: account, hold rows, journal
-- ARGV: 1 lease ms; 2 meta of the adjustment
-- Reply: ok, now | reap, now: reap.lua has to be called first
--      | account_not_found, now: there is none, or it is not closed | held, now, how many holds are open

local lease, meta = ARGV[1], ARGV[2]

local now = now_ms()
if call('HEXISTS', account_key, 'closed_at') == 0 then return { 'account_not_found', now } end
local account = read_account()
if has_expired(account, now, lease) then return { 'reap', now } end
local open = call('HLEN', hold_rows)
if open > 0 then return { 'held', now, open } end
account.allowance = read_allowance(account)

-- A deletion makes room, so it goes on when Redis' memory is full.
write_when_full()
-- While no hold is open, an account has a balance or a debt, never both: the adjustment takes the one or pays the other.
local forgiven = math.min(account.owed, MAX_AMOUNT - account.spent)
local amount = forgiven - (account.granted - account.spent)
if amount ~= 0 then
  account.granted = account.granted + amount
  local drawn = draw_beyond_balance(account)
  local balance = account.granted - account.spent
  local repaid = book_repayment(account)
  write_sums(account, { 'granted', int(account.granted) })
  call('XADD', journal, '*', 'type', 'adjustment', 'amount', int(amount), 'balance', int(balance), 'meta', meta,
    'allowance', int(drawn))
  write_repayment(repaid)
end
call('HSET', account_key, 'written_off', '1')
return { 'ok', now }
