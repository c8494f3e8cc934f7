-- Purpose: reads one message, or only whether it is there.
-- KEYS: session, messages
-- ARGV: 1 message id; 2 '1' = its row as well
-- Reply: ok, now, 1 = it is there, its row or '' | session_not_found, now | asleep, now, object

local session, messages = KEYS[1], KEYS[2]
local message, takes_row = ARGV[1], ARGV[2] == '1'

local now = now_ms()
local id, asleep = unpack(call('HMGET', session, 'id', 'asleep'))
if not id then return { 'session_not_found', now } end
if asleep then return { 'asleep', now, asleep } end
local row = takes_row and call('HGET', messages, message)
return { 'ok', now, row and 1 or call('HEXISTS', messages, message), row or '' }
