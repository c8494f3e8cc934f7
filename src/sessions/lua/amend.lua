-- Purpose: stores the final cost of a message that another gateway has ended, once the owner is back; changes nothing
--          when the message is gone, or has changed since its row was read.
-- KEYS: session, messages, storage
-- ARGV: 1 message id; 2 its row as it was read; 3 its new row
-- Reply: ok, now | changed, now

local session, messages, storage = KEYS[1], KEYS[2], KEYS[3]
local message, before, row = ARGV[1], ARGV[2], ARGV[3]

local now = now_ms()
if call('HGET', messages, message) ~= before then return { 'changed', now } end

local more = weight(#row) - weight(#before)
call('HSET', messages, message, row)
call('HINCRBY', session, 'bytes', int(#row - #before))
call('HINCRBY', session, 'counted', int(more))
call('HINCRBY', storage, 'sessions', int(more))
recount(session, storage)
return { 'ok', now }
