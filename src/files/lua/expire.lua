-- Purpose: expires a file: frees its bytes, queues its object, and keeps a tombstone for a while, so that clients get
-- `file_expired`. The tombstone counts as storage.
-- KEYS: files, session's files, storage, due, file
-- ARGV: 1 file id; 2 how long the tombstone is kept, s
-- Reply: ok, now | gone, now: no row, or one that stays

local files, session_files, storage, due, file = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, told_s = ARGV[1], ARGV[2]

local now = now_ms()
local bytes, row, expires_at, session =
  unpack(call('HMGET', file, 'bytes', 'row', 'expires_at', 'session'))
local expiry_ms = number(expires_at) * 1000
if not bytes or expiry_ms == 0 then
  call('ZREM', due, 'expiry ' .. id)
  return { 'gone', now }
end
if expiry_ms > now then
  call('ZADD', due, int(expiry_ms), 'expiry ' .. id)
  return { 'gone', now }
end

take_away(files, session_files, storage, due, id, bytes, row, now)
call('DEL', file)
call('HSET', file, 'id', id, 'expires_at', expires_at, 'session', session or '')
call('EXPIRE', file, told_s)
local told = read_storage(storage, now).told
call('HSET', storage, 'told', sum_with(told, TOLD_BYTES, now, number(told_s) * 1000))
return { 'ok', now }
