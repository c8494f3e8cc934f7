-- Purpose: the owner is back with the whole answer of a message that another gateway has ended: the answer takes the
-- place of that end, unless the session has gone on since, or the message was cancelled.
-- KEYS: stream, frames, session, message ids, messages, storage
-- ARGV: 1 `<hold> <seq of the first frame> <how many> <1 = replaces the frames in Redis>`; 2 the frames;
--       3 `<message id> <now, s> <ms that frames are kept> <retention, s>`; 4 the message's row
-- Reply: ok, now | lost, now: the other end stays | behind, now, seq of the frame that Redis needs next

local stream, frames, session, ids, messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local storage = KEYS[6]
local hold, first, count, anew = match(ARGV[1], '^(%S+) (%d+) (%d+) (%d)$')
local text, row = ARGV[2], ARGV[4]
local message, seconds, kept_ms, retention = match(ARGV[3], '^(%S+) (%d+) (%d+) (%d+)$')
first, count = number(first), number(count)
local after, replaces = first + count, anew == '1'
local function has_status(one, status)
  -- This text cannot stand within a value: there, its quotes would have backslashes.
  return one and string.find(one, '"status":"' .. status .. '"', 1, true)
end

local now = now_ms()
local found = call('HMGET', stream, 'hold', 'next', 'lost', 'cancelled', 'bytes')
local owner, next_seq, lost, cancelled, bytes = unpack(found)
next_seq = number(next_seq)
if owner == hold and not lost and next_seq == after then return { 'ok', now } end
local last, active = unpack(call('HMGET', session, 'last', 'active'))
local is_last = last == message and (not active or active == '')
local is_whole = has_status(row, 'completed')
local was_cut = has_status(call('HGET', messages, message), 'incomplete')
if not is_last or not is_whole or not was_cut then return { 'lost', now } end
if owner and (owner ~= hold or not lost or cancelled) then return { 'lost', now } end
-- The last frame in Redis is the other gateway's terminal.
local follows = next_seq - 1 == first or replaces
if owner and not follows then return { 'behind', now, int(next_seq - 1) } end

-- Without a stream, its frames are no longer kept, and only the row counts.
if owner then
  if replaces then
    call('DEL', frames)
    bytes = 0
  else
    call('XDEL', frames, int(next_seq) .. '-0')
  end
  -- `-1`, because the terminal may have had the same number, and an id is never used twice.
  call('XADD', frames, int(after) .. '-1', 'f', text, 'e', '1')
  call('HSET', stream, 'next', int(after))
  call('HDEL', stream, 'lost')
  call('PEXPIRE', stream, kept_ms)
  call('PEXPIRE', frames, kept_ms)
end
-- Frames that were counted at the other end are counted again, because they are kept longer now.
end_message(session, ids, messages, storage, message, row, seconds, retention, now,
  { bytes = owner and number(bytes) + #text or 0, kept_ms = kept_ms })
return { 'ok', now }
