-- Purpose: writes a file's row in place of its upload's record. Calling it again has no further effect.
-- KEYS: session, files, session's files, file, storage, due, account
-- ARGV: 1 `<file id> <session id> <bytes> <quota> <quota without money>`; 2 when it expires, s, or ''; 3 minute
--       that is announced for it; 4… the row: fields and values
-- Reply: ok, now | session_not_found, now | storage_quota_exceeded, now | lost, now: its lease has ended
--      | announce, now, minute

local session, files, session_files, file, storage, due, account =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local id, session_id, bytes, quota, unpaid = match(ARGV[1], '^(%S+) (%S+) (%d+) (%d+) (%d+)$')
local expires_at, minute = ARGV[2], ARGV[3]
local day_ms = 86400000

local now = now_ms()
if call('HEXISTS', file, 'id') == 1 then return { 'ok', now } end
if not call('ZSCORE', due, 'upload ' .. id) then return { 'lost', now } end
local left_ms = call('PTTL', session)
if left_ms == -2 then return { 'session_not_found', now } end
local reserved = number(call('HGET', storage, id))
local more = number(bytes) + FILE_BYTES - reserved
-- Bytes that were reserved are never refused here.
if more > 0 then
  local stored = read_storage(storage, now)
  if not fits(account, stored.bytes + more, number(quota), number(unpaid)) then
    return { 'storage_quota_exceeded', now }
  end
end
local expiry_ms = number(expires_at) * 1000
if expires_at ~= '' then
  local needed = unannounced(storage, minute, math.max(now, expiry_ms))
  if needed then return { 'announce', now, needed } end
  call('ZADD', due, int(expiry_ms), 'expiry ' .. id)
end

call('HSET', file, 'row', int(FILE_BYTES), unpack(ARGV, 4))
call('ZADD', files, 0, id)
call('ZADD', session_files, 0, id)
call('HINCRBY', storage, 'used', bytes)
call('HINCRBY', storage, 'rows', int(FILE_BYTES))
call('HINCRBY', storage, 'reserved', int(-reserved))
call('HDEL', storage, id)
call('ZREM', due, 'upload ' .. id)
-- Looks again after a day at most, because the retention may change.
local look_ms = left_ms > 0 and math.min(left_ms, day_ms) or day_ms
call('ZADD', due, 'NX', int(now + look_ms), 'session ' .. session_id)
return { 'ok', now }
