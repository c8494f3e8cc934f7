-- Purpose: counts all that an upload needs before its bytes are stored, so parallel uploads never exceed the quota;
-- renews its lease.
-- KEYS: storage, due, account
-- ARGV: 1 file id; 2 bytes of the file in all (fewer than before change nothing); 3 `<quota> <quota without money>`;
--       4 lease, ms
-- Reply: ok, now | storage_quota_exceeded, now | lost, now: its lease has ended

local storage, due, account = KEYS[1], KEYS[2], KEYS[3]
local id, bytes, lease_ms = ARGV[1], number(ARGV[2]), number(ARGV[4])
local quota, unpaid = match(ARGV[3], '^(%d+) (%d+)$')
local record = 'upload ' .. id

local now = now_ms()
if not call('ZSCORE', due, record) then return { 'lost', now } end
local own = call('HGET', storage, id)
local needed = bytes + FILE_BYTES
local more = needed - number(own)
if bytes > 0 and more > 0 then
  local stored = read_storage(storage, now)
  if not fits(account, stored.bytes + more, number(quota), number(unpaid)) then
    return { 'storage_quota_exceeded', now }
  end
  call('HSET', storage, id, int(needed))
  call('HINCRBY', storage, 'reserved', int(more))
end
call('ZADD', due, int(now + lease_ms), record)
return { 'ok', now }
