-- Purpose: frames of a message that is generated, in order, by its owner alone; tells the owner of a cancel.
-- KEYS: stream, frames, session, messages, storage
-- ARGV: 1 `<hold> <seq of the first frame> <how many> <bytes that are kept> <1 = what is kept begins anew>`;
--       2 the frames; 3 what all frames so far have said, or ''; 4 message id
-- Reply: ok, now, 1 = cancelled | lost, now: it is another's, or has ended | behind, now, seq that is missing
--      | forgotten, now: neither it nor its session is there

local stream, frames, session, messages, storage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local hold, first, count, most, anew = match(ARGV[1], '^(%S+) (%d+) (%d+) (%d+) (%d)$')
local text, said, message = ARGV[2], ARGV[3], ARGV[4]
first, count, most = number(first), number(count), number(most)

local now = now_ms()
local found = call('HMGET', stream, 'hold', 'ended', 'next', 'bytes', 'cancelled', 'said_next',
  'counted')
local owner, ended, next_seq, bytes, cancelled, said_next, counted = unpack(found)
next_seq, bytes = number(next_seq), number(bytes)
if not owner then
  local word = why_gone(session, messages, message)
  if word then return { word, now } end
  if first > 0 and anew ~= '1' then return { 'behind', now, 0 } end
  begin_anew(stream, frames, session, hold)
  owner = hold
end
if owner ~= hold or ended then return { 'lost', now } end
local is_stored = next_seq >= first + count
if not is_stored and next_seq ~= first and anew ~= '1' then return { 'behind', now, next_seq } end

if count == 0 or is_stored then
  call('HSET', stream, 'touched', int(now))
  return { 'ok', now, number(cancelled) }
end
if anew == '1' then
  call('DEL', frames)
  bytes = 0
end
local after = first + count
call('XADD', frames, int(after) .. '-0', 'f', text)
-- Where sessions expire, frames whose owner is gone do too.
local left_ms = bytes == 0 and call('PTTL', stream) or 0
if left_ms > 0 then call('PEXPIRE', frames, int(left_ms)) end
bytes = bytes + #text
local changes = { 'touched', int(now), 'next', int(after) }
if said ~= '' then
  said_next = int(after)
  changes[5], changes[6], changes[7], changes[8] = 'said', said, 'said_next', said_next
end
-- The oldest go, but none that nothing else has kept the words of.
while bytes > most do
  local oldest = call('XRANGE', frames, '-', '+', 'COUNT', 1)[1]
  local oldest_next = number(match(oldest[1], '^%d+'))
  if oldest_next > number(said_next) or oldest_next == after then break end
  call('XDEL', frames, oldest[1])
  bytes = bytes - #oldest[2][2]
end
-- The session of an answer that was deleted counts nothing any more; its frames are counted at their end.
local taken = STREAM_BYTES + weight(bytes + #said)
if taken > number(counted) and call('HEXISTS', session, 'id') == 1 then
  local more = math.ceil((taken - number(counted)) / RUNNING_BYTES) * RUNNING_BYTES
  call('HINCRBY', session, 'counted', int(more))
  call('HINCRBY', storage, 'sessions', int(more))
  recount(session, storage)
  changes[#changes + 1], changes[#changes + 2] = 'counted', int(number(counted) + more)
end
call('HSET', stream, 'bytes', int(bytes), unpack(changes))
return { 'ok', now, number(cancelled) }
