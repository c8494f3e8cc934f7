-- Purpose: the owner ends a message: writes its last frames with the terminal and its final row, and frees the session.
-- KEYS: stream, frames, session, message ids, messages, storage
-- ARGV: 1 `<hold> <seq of the first frame> <how many> <1 = replaces the frames in Redis>`; 2 the frames;
--       3 `<message id> <now, s> <ms that frames are kept> <retention, s>`; 4 the message's row
-- Reply: ok, now | lost, now | behind, now, seq of the frame that Redis needs next
--      | forgotten, now: Redis has neither stream nor session

local stream, frames, session, ids, messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local storage = KEYS[6]
local hold, first, count, anew = match(ARGV[1], '^(%S+) (%d+) (%d+) (%d)$')
local text, row = ARGV[2], ARGV[4]
local message, seconds, kept_ms, retention = match(ARGV[3], '^(%S+) (%d+) (%d+) (%d+)$')
first, count = number(first), number(count)
local after, replaces = first + count, anew == '1'

local now = now_ms()
local found = call('HMGET', stream, 'hold', 'ended', 'next', 'lost', 'bytes', 'counted')
local owner, ended, next_seq, lost, bytes, counted = unpack(found)
next_seq = number(next_seq)
local is_gone = not owner
if is_gone then
  local word = why_gone(session, messages, message)
  if word then return { word, now } end
elseif owner ~= hold then
  return { 'lost', now }
end
if ended then
  local is_this_end = not lost and next_seq == after
  return { is_this_end and 'ok' or 'lost', now }
end
local follows = next_seq == first or replaces
if not follows then return { 'behind', now, next_seq } end

if is_gone or replaces then
  call('DEL', frames)
  bytes = 0
end
call('XADD', frames, int(after) .. '-0', 'f', text, 'e', '1')
call('HSET', stream, 'hold', hold, 'next', int(after), 'ended', '1')
call('HDEL', stream, 'said', 'said_next')
call('PEXPIRE', stream, kept_ms)
call('PEXPIRE', frames, kept_ms)
end_message(session, ids, messages, storage, message, row, seconds, retention, now,
  { bytes = number(bytes) + #text, counted = counted, kept_ms = kept_ms })
return { 'ok', now }
