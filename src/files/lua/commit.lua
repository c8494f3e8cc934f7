-- Purpose: writes a file's row in place of its upload's record. Calling it again has no further effect.
-- KEYS: session, files, session's files, file, storage, due, account
-- ARGV: 1 `<file id> <session id> <bytes> <quota> <quota without money>`; 2 when it expires, s, or ''; 3 minute
--       that is announced for it; 4… the row: fields and values
-- Reply: ok, now (0 = was not asked for) | session_not_found, now | storage_quota_exceeded, now
--      | lost, now: its lease has ended | announce, now, minute

local session, files, session_files, file, storage, due, account =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local id, session_id, bytes, quota, unpaid = match(ARGV[1], '^(%S+) (%S+) (%d+) (%d+) (%d+)$')
local expires_at, minute = ARGV[2], ARGV[3]
local day_ms = 86400000

local reserved, used, rows, all_reserved, closed =
  unpack(call('HMGET', storage, id, 'used', 'rows', 'reserved', 'closed'))
local more = number(bytes) + FILE_BYTES - number(reserved)
-- An earlier call may have written the file. It has then removed the upload's reservation.
if more > 0 and call('HEXISTS', file, 'id') == 1 then return { 'ok', 0 } end
-- Both are there: a sweeper looks at this session already, because outlive.lua stops that only where no file is.
local is_looked_at = call('EXISTS', session, session_files) == 2
local left_ms = not is_looked_at and call('PTTL', session)
if left_ms == -2 then return { 'session_not_found', 0 } end
local needs_time = more > 0 or expires_at ~= '' or not is_looked_at
local now = needs_time and now_ms() or 0
-- Bytes that were reserved are never refused here.
if more > 0 then
  local stored = read_storage(storage, now)
  if not fits(account, stored.bytes + more, number(quota), number(unpaid)) then
    return { 'storage_quota_exceeded', now }
  end
end
local expiry_ms = number(expires_at) * 1000
if expires_at ~= '' then
  local needed = minute_to_announce(closed, minute, math.max(now, expiry_ms))
  if needed then return { 'announce', now, needed } end
end

-- Without a record nothing is written, and nothing was written above.
if call('ZREM', due, 'upload ' .. id) == 0 then
  return { call('HEXISTS', file, 'id') == 1 and 'ok' or 'lost', now }
end
-- Where the row was there, the record and the reservation are of a begin that came late.
local added = call('HSET', file, 'row', int(FILE_BYTES), unpack(ARGV, 4))
if added > 0 then
  call('ZADD', files, 0, id)
  call('ZADD', session_files, 0, id)
  used, rows = number(used) + number(bytes), number(rows) + FILE_BYTES
end
call('HSET', storage, 'used', int(number(used)), 'rows', int(number(rows)),
  'reserved', int(number(all_reserved) - number(reserved)))
call('HDEL', storage, id)
if expires_at ~= '' then call('ZADD', due, int(expiry_ms), 'expiry ' .. id) end
if not is_looked_at then
  -- Looks again after a day at most, because the retention may change.
  local look_ms = left_ms > 0 and math.min(left_ms, day_ms) or day_ms
  call('ZADD', due, 'NX', int(now + look_ms), 'session ' .. session_id)
end
return { 'ok', now }
