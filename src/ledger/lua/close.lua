-- Purpose: closes an account for ever, before its rows are deleted: it is suspended, nothing more can be credited to it
-- or stored for it, and the operator can't change it. Its open holds still end. Calling it again has no further effect.
-- KEYS: account, hold rows, journal
-- ARGV: 1 lease ms; 2 '1' = also an account that has or owes tokens
-- Reply: ok, now | reap, now: reap.lua has to be called first | account_not_found, now
--      | account_not_empty, now, balance, reserved, owed

local lease, is_forfeited = ARGV[1], ARGV[2] == '1'

local now = now_ms()
local account = read_account()
account.allowance = read_allowance(account)
if not account.id then return { 'account_not_found', now } end
if has_expired(account, now, lease) then return { 'reap', now } end
local balance = account.granted - account.spent
local is_closed = call('HEXISTS', account_key, 'closed_at') == 1
-- The rest of an allowance does not count as money of the account: nobody has paid for it.
local given = account.allowance and math.min(account.allowance.left, balance) or 0
local is_empty = balance == given and account.owed == 0

if not is_closed and not is_empty and not is_forfeited then
  return { 'account_not_empty', now, int(balance), int(account.reserved), int(account.owed) }
end
-- A deletion makes room, so it goes on when Redis' memory is full.
write_when_full()
-- A gateway of an earlier version knows nothing of `closed_at`, but it refuses the keys of a suspended account.
call('HSET', account_key, 'status', 'suspended')
call('HSETNX', account_key, 'closed_at', int(math.floor(now / 1000)))
return { 'ok', now }
