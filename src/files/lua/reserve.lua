-- Purpose: counts what an upload needs when it turns out to be larger; renews its lease.
-- KEYS: storage, due, account
-- ARGV: 1 file id; 2 `<bytes of the file in all> <quota> <quota without money>`; 3 lease, ms
-- Reply: ok, now | storage_quota_exceeded, now | lost, now: its lease has ended

local storage, due, account = KEYS[1], KEYS[2], KEYS[3]
local id, words, lease_ms = ARGV[1], ARGV[2], number(ARGV[3])
local record = 'upload ' .. id

local now = now_ms()
if not call('ZSCORE', due, record) then return { 'lost', now } end
local stored, own = read_storage(storage, now, id)
if not reserve(storage, account, stored, own, id, words) then
  return { 'storage_quota_exceeded', now }
end
call('ZADD', due, int(now + lease_ms), record)
return { 'ok', now }
