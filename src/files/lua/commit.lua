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
local record, look = 'upload ' .. id, 'session ' .. session_id
local day_ms = 86400000

local now = now_ms()
local lease, looks_at = unpack(call('ZMSCORE', due, record, look))
local reserved, used, rows, all_reserved, closed =
  unpack(call('HMGET', storage, id, 'used', 'rows', 'reserved', 'closed'))
local more = number(bytes) + FILE_BYTES - number(reserved)
-- An earlier call may have written the file. It has then removed the upload's record and reservation: so there is no
-- lease now, or one of a new record, which a begin that came late has made.
local may_be_written = not lease or more > 0
if may_be_written and call('HEXISTS', file, 'id') == 1 then return { 'ok', now } end
if not lease then return { 'lost', now } end
local left_ms = call('PTTL', session)
if left_ms == -2 then return { 'session_not_found', now } end
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
  call('ZADD', due, int(expiry_ms), 'expiry ' .. id)
end

local added = call('HSET', file, 'row', int(FILE_BYTES), unpack(ARGV, 4))
-- The row was there: the new record is of a late begin. A sweeper removes it.
if added == 0 then return { 'ok', now } end
call('ZADD', files, 0, id)
call('ZADD', session_files, 0, id)
call('HSET', storage, 'used', int(number(used) + number(bytes)), 'rows', int(number(rows) + FILE_BYTES),
  'reserved', int(number(all_reserved) - number(reserved)))
call('HDEL', storage, id)
call('ZREM', due, record)
if not looks_at then
  -- Looks again after a day at most, because the retention may change.
  local look_ms = left_ms > 0 and math.min(left_ms, day_ms) or day_ms
  call('ZADD', due, int(now + look_ms), look)
end
return { 'ok', now }
