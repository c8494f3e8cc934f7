-- Purpose: what an upload needs in all counts at once, so that parallel ones never have more than the quota; renews its lease.
-- KEYS: storage, due
-- ARGV: 1 file id; 2 bytes in all, less than before changes nothing; 3 quota; 4 lease, ms
-- Reply: ok, now | storage_quota_exceeded, now | lost, now: its lease has ended

local storage, due = KEYS[1], KEYS[2]
local id, bytes, quota, lease_ms = ARGV[1], number(ARGV[2]), number(ARGV[3]), number(ARGV[4])
local record = 'upload ' .. id

local now = now_ms()
if not call('ZSCORE', due, record) then return { 'lost', now } end
local used, reserved, own = unpack(call('HMGET', storage, 'used', 'reserved', id))
local more = bytes - number(own)
if more > 0 then
  if number(used) + number(reserved) + more > quota then return { 'storage_quota_exceeded', now } end
  call('HSET', storage, id, int(bytes))
  call('HINCRBY', storage, 'reserved', int(more))
end
call('ZADD', due, int(now + lease_ms), record)
return { 'ok', now }
