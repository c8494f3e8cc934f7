-- Purpose: puts a session to sleep: its messages leave Redis, because an object in the store has them. Changes nothing if
-- the session has changed since its messages were read.
-- KEYS: session, message ids, messages, objects of the account
-- ARGV: 1 `<object> <how many messages it has>`; 2… fields of the session and their values as they were read, '' for a
--       missing one
-- Reply: ok, now | changed, now | late, now: the object may be removed soon

local session, ids, messages, objects = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local object, count = match(ARGV[1], '^(%S+) (%d+)$')
local first_field, hour_ms = 2, 3600000
count = number(count)

local now = now_ms()
local id, active, asleep = unpack(call('HMGET', session, 'id', 'active', 'asleep'))
if not id or asleep or (active and active ~= '') then return { 'changed', now } end
for i = first_field, #ARGV, 2 do
  if (call('HGET', session, ARGV[i]) or '') ~= ARGV[i + 1] then return { 'changed', now } end
end
if call('ZCARD', ids) ~= count or call('HLEN', messages) ~= count then return { 'changed', now } end
-- Whoever finds an object whose time has come, and that no session names, removes it.
if number(call('ZSCORE', objects, object)) < now + hour_ms then return { 'late', now } end

call('HSET', session, 'asleep', object)
call('UNLINK', ids, messages)
return { 'ok', now }
