-- Purpose: writes some of the messages of a sleeping session back, and with the last ones wakes the session. Several
-- gateways may do so at a time: they write the same rows.
-- KEYS: session, message ids, messages, objects of the account
-- ARGV: 1 `<object> <0, or with the last messages how many there are> <ms that the object is kept for>`; 2… ids and rows
-- Reply: ok, now | again, now: messages are missing | awake, now: the session does not sleep in this object (any more)
--      | session_not_found, now

local session, ids, messages, objects = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local object, count, kept_ms = match(ARGV[1], '^(%S+) (%d+) (%d+)$')
count = number(count)

local now = now_ms()
local id, asleep = unpack(call('HMGET', session, 'id', 'asleep'))
if not id then return { 'session_not_found', now } end
if asleep ~= object then return { 'awake', now } end
local left_ms = call('PTTL', session)

for i = 2, #ARGV, 2 do
  call('ZADD', ids, 0, ARGV[i])
  call('HSET', messages, ARGV[i], ARGV[i + 1])
end
expire_in(ids, left_ms)
expire_in(messages, left_ms)
if count == 0 then return { 'ok', now } end
if call('ZCARD', ids) < count or call('HLEN', messages) < count then return { 'again', now } end
call('HDEL', session, 'asleep')
call('HSET', session, 'woken', int(now))
-- The object stays for a while, because a backup of Redis may still name it.
call('ZADD', objects, int(now + number(kept_ms)), object)
return { 'ok', now }
