-- Purpose: stores the final cost of a message that another gateway has ended, once the owner is back; changes nothing
--          when the message is gone, has changed since its row was read, or sleeps in the store with its session.
-- KEYS: session, messages, storage
-- ARGV: 1 message id; 2 its row as it was read; 3 its new row
-- Reply: ok, now | changed, now

local session, messages, storage = KEYS[1], KEYS[2], KEYS[3]
local message, before, row = ARGV[1], ARGV[2], ARGV[3]

local now = now_ms()
if call('HGET', messages, message) ~= before then return { 'changed', now } end
if call('HEXISTS', session, 'asleep') == 1 then return { 'changed', now } end

local more = weight(#row) - weight(#before)
call('HSET', messages, message, row)
-- Whoever has read the messages to put them into the store learns of this by the count.
call('HINCRBY', session, 'amended', 1)
call('HINCRBY', session, 'bytes', int(#row - #before))
call('HINCRBY', session, 'counted', int(more))
call('HINCRBY', storage, 'sessions', int(more))
recount(session, storage)
return { 'ok', now }
