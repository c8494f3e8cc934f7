-- Purpose: takes back all that a send has stored, but for the session's `last` and `updated_at`, when the send failed
-- before its answer began.
-- KEYS: stream, frames, session, message ids, messages, storage, claim of an Idempotency-Key (not given where none came)
-- ARGV: 1 hold; 2 kept claim; 3… the ids of its messages, the answer last
-- Reply: ok, now | lost, now: it has ended, or its session sleeps in the store

local stream, frames, session, ids, messages = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local storage, claim = KEYS[6], KEYS[7]
local hold, kept, first_id = ARGV[1], ARGV[2], 3

local now = now_ms()
local owner, ended, of_stream = unpack(call('HMGET', stream, 'hold', 'ended', 'counted'))
if owner ~= hold or ended then return { 'lost', now } end
local active, bytes, count, was, asleep =
  unpack(call('HMGET', session, 'active', 'bytes', 'messages', 'counted', 'asleep'))
if asleep then return { 'lost', now } end

call('DEL', stream, frames)
if claim and call('GET', claim) == kept then
  call('DEL', claim)
  local claims = read_sum(call('HGET', storage, 'claims'), now)
  call('HSET', storage, 'claims', sum_with(claims, -CLAIM_BYTES, now, CLAIM_MS))
end
if not bytes then return { 'ok', now } end
local size, gone, less = 0, 0, number(of_stream)
for i = first_id, #ARGV do
  local row = call('HGET', messages, ARGV[i])
  if row then
    size, gone, less = size + #row, gone + 1, less + MESSAGE_BYTES + weight(#row)
    call('HDEL', messages, ARGV[i])
    call('ZREM', ids, ARGV[i])
  end
end
local counted = math.max(0, number(was) - less)
call('HSET', session, 'bytes', int(number(bytes) - size), 'messages', int(number(count) - gone),
  'counted', int(counted))
call('HINCRBY', storage, 'sessions', int(counted - number(was)))
recount(session, storage)
if active == ARGV[#ARGV] then call('HDEL', session, 'active') end
return { 'ok', now }
