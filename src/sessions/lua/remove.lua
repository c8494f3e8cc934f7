-- Purpose: deletes a session with its messages, and tells the owner of a running generation to stop.
-- KEYS: sessions, session, message ids, messages, storage, objects of the account, stream of the active message, its
--       frames (the last two not given where none is active)
-- ARGV: 1 session id; 2 its greatest message id as it was read; 3 its active message as it was read;
--       4 `<how long a running stream is kept, s> <ms that the object of a sleeping session is kept for>`
-- Reply: ok, now | session_not_found, now | again, now: the session has changed since it was read

local sessions, session, ids, messages, storage, objects, stream, frames =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id, seen_last, seen_active = ARGV[1], ARGV[2], ARGV[3]
local kept_s, object_ms = match(ARGV[4], '^(%d+) (%d+)$')

local now = now_ms()
local found, last, active, counted, asleep =
  unpack(call('HMGET', session, 'id', 'last', 'active', 'counted', 'asleep'))
if not found then return { 'session_not_found', now } end
local has_changed = (last or '') ~= seen_last or (active or '') ~= seen_active
if has_changed then return { 'again', now } end

call('ZREM', sessions, id)
call('UNLINK', session, ids, messages)
if asleep then call('ZADD', objects, int(now + number(object_ms)), asleep) end
local left = call('HINCRBY', storage, 'sessions', int(-number(counted)))
if left > 0 then
  call('HDEL', storage, id)
else
  call('HDEL', storage, id, 'sessions')
end
if stream and call('EXISTS', stream) == 1 then
  call('HSET', stream, 'cancelled', '1')
  call('EXPIRE', stream, kept_s)
  call('EXPIRE', frames, kept_s)
  -- The frames are counted here in case their owner is dead. An owner that lives counts them once more at the end.
  local taken = STREAM_BYTES + weight(number(call('HGET', stream, 'bytes')))
  local frames_sum = read_sum(call('HGET', storage, 'frames'), now)
  call('HSET', storage, 'frames', sum_with(frames_sum, taken, now, number(kept_s) * 1000))
end
return { 'ok', now }
