-- Purpose: whether a session names an object; if it does, sets when to look again.
-- KEYS: session, objects of the account
-- ARGV: 1 object; 2 ms until the next look
-- Reply: ok, now | unnamed, now: the object has to go | later, now: its time has not come

local session, objects = KEYS[1], KEYS[2]
local object, wait_ms = ARGV[1], number(ARGV[2])

local now = now_ms()
local due = call('ZSCORE', objects, object)
if not due or tonumber(due) > now then return { 'later', now } end
if call('HGET', session, 'asleep') ~= object then return { 'unnamed', now } end
call('ZADD', objects, int(now + wait_ms), object)
return { 'ok', now }
