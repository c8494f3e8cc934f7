-- Purpose: has a sweeper look at the files of a session soon, because the session is about to be deleted: the gateway
-- may die before it has removed them.
-- KEYS: storage, due
-- ARGV: 1 session id; 2 minute that is announced; 3 when a sweeper looks, ms from now
-- Reply: ok, now | announce, now, minute

local storage, due = KEYS[1], KEYS[2]
local id, minute, wait_ms = ARGV[1], ARGV[2], number(ARGV[3])

local now = now_ms()
local needed = minute_to_announce(call('HGET', storage, 'closed'), minute, now + wait_ms)
if needed then return { 'announce', now, needed } end
call('ZADD', due, 'LT', int(now + wait_ms), 'session ' .. id)
return { 'ok', now }
