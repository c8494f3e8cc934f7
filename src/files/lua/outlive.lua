-- Purpose: whether a session is gone, so that its files have to go; if it exists with files, sets when to look again.
-- KEYS: session, session's files, due
-- ARGV: 1 session id
-- Reply: gone, now: its files have to go | ok, now

local session, session_files, due = KEYS[1], KEYS[2], KEYS[3]
local member = 'session ' .. ARGV[1]
local day_ms = 86400000

local now = now_ms()
local left_ms = call('PTTL', session)
if left_ms == -2 then return { 'gone', now } end
if call('EXISTS', session_files) == 0 then
  call('ZREM', due, member)
  return { 'ok', now }
end
local look_ms = left_ms > 0 and math.min(left_ms, day_ms) or day_ms
call('ZADD', due, int(now + look_ms), member)
return { 'ok', now }
