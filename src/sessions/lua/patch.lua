-- Purpose: changes fields of a session that is there; never makes one.
-- KEYS: session, message ids, messages
-- ARGV: 1 retention, s; 2… fields and values
-- Reply: ok, now, the whole row as fields and values | session_not_found, now

local session, ids, messages = KEYS[1], KEYS[2], KEYS[3]
local retention_s = number(ARGV[1])
local changes = {}
for i = 2, #ARGV do
  changes[#changes + 1] = ARGV[i]
end

local now = now_ms()
local created = call('HGET', session, 'created_at')
if not created then return { 'session_not_found', now } end

-- Ids, and with them created_at, are of a gateway's clock, which may be ahead.
local updated = math.max(number(created), math.floor(now / 1000))
call('HSET', session, 'updated_at', int(updated), unpack(changes))
keep({ session, ids, messages }, retention_s)
return { 'ok', now, call('HGETALL', session) }
