-- Purpose: asks the owner of a message to stop; the reply to the owner's next append says so.
-- KEYS: stream
-- ARGV: none
-- Reply: ok, now | ended, now

local stream = KEYS[1]

local now = now_ms()
local hold, ended = unpack(call('HMGET', stream, 'hold', 'ended'))
if not hold or ended then return { 'ended', now } end
call('HSET', stream, 'cancelled', 1)
return { 'ok', now }
