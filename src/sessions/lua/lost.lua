-- Purpose: ends a message whose owner is gone, with the words of its frames; any gateway may do so.
-- KEYS: stream, frames, session, message ids, messages, storage, hold rows
-- ARGV: 1 `<hold> <seq that its frames had reached> <lease, ms> <silence that counts, ms>`;
--       2 the terminal without its id line; 3 `<message id> <now, s> <ms that frames are kept> <retention, s>`;
--       4 the message's final row, or '' where Redis has no row of it (it was deleted)
-- Reply: ok, now | alive, now | ended, now | again, now: the stream has changed since it was read

local stream, frames, session, ids, messages, storage, hold_rows =
  KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7]
local hold, reached, lease_ms, silence_ms = match(ARGV[1], '^(%S+) (%d+) (%d+) (%d+)$')
local data, row = ARGV[2], ARGV[4]
local message, seconds, kept_ms, retention = match(ARGV[3], '^(%S+) (%d+) (%d+) (%d+)$')

local now = now_ms()
local found = call('HMGET', stream, 'hold', 'ended', 'next', 'touched', 'bytes', 'counted')
local owner, ended, next_seq, touched, bytes, counted = unpack(found)
if ended then return { 'ended', now } end
-- Without a stream and a row: since the row was read, the owner has withdrawn the message, or a client has deleted the
-- session.
if not owner and call('HEXISTS', messages, message) == 0 then return { 'ended', now } end
-- The row of a hold ends with its lease's deadline, unless a gateway of an earlier version made it.
local row_of_hold = call('HGET', hold_rows, hold)
if row_of_hold and (tonumber(string.sub(row_of_hold, -13)) or math.huge) > now then return { 'alive', now } end
-- The hold may be gone while the owner lives: an owner settles its hold just before it finishes the message.
local silent_ms = now - number(touched)
if silent_ms < tonumber(silence_ms) then return { 'alive', now } end
-- After a restart of Redis, the owner may not have had the time to renew its hold.
if uptime_ms() < tonumber(lease_ms) then return { 'alive', now } end
local has_changed = owner ~= hold or number(next_seq) ~= number(reached)
if owner and has_changed then return { 'again', now } end
local before = read_session(session)
-- Nothing is changed while the session sleeps. Whoever reads the message next wakes the session first.
if before.asleep then return { 'ended', now } end

local seq = number(next_seq)
-- Redis has lost the stream. If it still has frames, XADD would refuse the terminal, whose number is not above theirs.
if not owner then call('DEL', frames) end
call('XADD', frames, int(seq + 1) .. '-0', 'f',
  'id: ' .. message .. ':' .. int(seq) .. '\n' .. data, 'e', 'lost')
call('HSET', stream, 'hold', hold, 'next', int(seq + 1), 'ended', '1', 'lost', '1')
call('HDEL', stream, 'said', 'said_next')
call('PEXPIRE', stream, kept_ms)
call('PEXPIRE', frames, kept_ms)
local place = { session = session, ids = ids, messages = messages, storage = storage, message = message }
end_message(before, place, {
  row = row, now = now, seconds = seconds, retention = retention, kept_ms = kept_ms,
  bytes = number(bytes) + #data, counted = counted,
})
return { 'ok', now }
