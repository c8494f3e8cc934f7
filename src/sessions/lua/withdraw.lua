-- Purpose: a send that failed before it was answered leaves nothing behind.
-- KEYS: stream, frames, session, message ids, messages, claim of an Idempotency-Key (not given where none came)
-- ARGV: 1 hold; 2 kept claim; 3… the ids of its messages, the answer last
-- Reply: ok, now | lost, now

local stream, frames, session, ids, messages, claim = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local hold, kept, first_id = ARGV[1], ARGV[2], 3

local now = now_ms()
local owner, ended = unpack(call('HMGET', stream, 'hold', 'ended'))
if owner ~= hold or ended then return { 'lost', now } end

call('DEL', stream, frames)
if claim and call('GET', claim) == kept then call('DEL', claim) end
local active, bytes, count = unpack(call('HMGET', session, 'active', 'bytes', 'messages'))
if not bytes then return { 'ok', now } end
local size, gone = 0, 0
for i = first_id, #ARGV do
  local row = call('HGET', messages, ARGV[i])
  if row then
    size, gone = size + #row, gone + 1
    call('HDEL', messages, ARGV[i])
    call('ZREM', ids, ARGV[i])
  end
end
call('HSET', session, 'bytes', int(number(bytes) - size), 'messages', int(number(count) - gone))
if active == ARGV[#ARGV] then call('HDEL', session, 'active') end
return { 'ok', now }
