-- Purpose: a message that others have ended, with what it cost after its owner woke; nothing where it is gone, or has moved.
-- KEYS: session, messages
-- ARGV: 1 message id; 2 its row as it was read; 3 its row as it stays
-- Reply: ok, now | changed, now

local session, messages = KEYS[1], KEYS[2]
local message, before, row = ARGV[1], ARGV[2], ARGV[3]

local now = now_ms()
if call('HGET', messages, message) ~= before then return { 'changed', now } end

call('HSET', messages, message, row)
call('HINCRBY', session, 'bytes', int(#row - #before))
return { 'ok', now }
