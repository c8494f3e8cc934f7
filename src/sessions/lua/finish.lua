-- Purpose: the owner ends a message: writes its last frames with the terminal and its final row, and frees the session.
-- If another gateway has ended the message meanwhile, a whole answer takes the place of that end, unless the session has
-- gone on since, or the message was cancelled.
-- KEYS: stream, frames, session, message ids, messages, storage
-- ARGV: 1 `<hold> <seq of the first frame> <how many> <1 = replaces the frames in Redis>`; 2 the frames;
--       3 `<message id> <now, s> <ms that frames are kept> <retention, s>`; 4 the message's row
-- Reply: ok, now | lost, now: another end stays | behind, now, seq of the frame that Redis needs next
--      | forgotten, now: Redis has neither stream nor session

local stream, frames, session, ids, messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local storage = KEYS[6]
local hold, first, count, replaces = match(ARGV[1], '^(%S+) (%d+) (%d+) (%d)$')
local text, row = ARGV[2], ARGV[4]
local message, seconds, kept_ms, retention = match(ARGV[3], '^(%S+) (%d+) (%d+) (%d+)$')
first, count = number(first), number(count)
replaces = replaces == '1'
local after = first + count
local before = read_session(session)
local function may_replace_end()
  local is_last = before.last == message and (not before.active or before.active == '')
  return is_last and has_status(row, 'completed')
    and has_status(call('HGET', messages, message), 'incomplete')
end

local now = now_ms()
local found = call('HMGET', stream, 'hold', 'ended', 'next', 'lost', 'cancelled', 'bytes', 'counted')
local owner, ended, next_seq, has_other_terminal, cancelled, bytes, counted =
  unpack(found)
next_seq = number(next_seq)
-- Redis has no stream for one of three reasons: it has forgotten the session, too; the message has ended, and its stream is
-- no longer kept; or it has lost the stream, which is then begun anew.
local is_gone = not owner
local reason = is_gone and why_gone(session, messages, message)
if reason == 'forgotten' then return { 'forgotten', now } end
local is_no_longer_kept = reason == 'lost'
if owner and owner ~= hold then return { 'lost', now } end
if ended and not has_other_terminal then return { next_seq == after and 'ok' or 'lost', now } end
-- An end that is written beside the messages of a sleeping session would pass for all of them.
if before.asleep then return { 'lost', now } end
-- Another gateway has ended the message: its terminal stands in the stream, or the stream is no longer kept.
local has_other_end = has_other_terminal or is_no_longer_kept
if has_other_end and (cancelled or not may_replace_end()) then return { 'lost', now } end

if not is_no_longer_kept then
  -- If another gateway has ended the stream, the last frame is that gateway's terminal.
  local reached = has_other_terminal and next_seq - 1 or next_seq
  local follows = reached == first or replaces
  if not follows then return { 'behind', now, reached } end
  if is_gone or replaces then
    call('DEL', frames)
    bytes = 0
  elseif has_other_terminal then
    call('XDEL', frames, int(next_seq) .. '-0')
  end
  -- `-1`, because the other terminal may have had the same number, and an id is never used twice.
  call('XADD', frames, int(after) .. (has_other_terminal and '-1' or '-0'), 'f', text, 'e', '1')
  call('HSET', stream, 'hold', hold, 'next', int(after), 'ended', '1')
  call('HDEL', stream, 'said', 'said_next', 'lost')
  call('PEXPIRE', stream, kept_ms)
  call('PEXPIRE', frames, kept_ms)
end
-- The frames of a stream that another gateway has ended are counted once more, because they are kept longer now. The
-- session no longer counts them.
local place = { session = session, ids = ids, messages = messages, storage = storage, message = message }
end_message(before, place, {
  row = row, now = now, seconds = seconds, retention = retention, kept_ms = kept_ms,
  bytes = is_no_longer_kept and 0 or number(bytes) + #text, counted = has_other_terminal and 0 or counted,
})
return { 'ok', now }
