-- Purpose: finds the sessions that may be put to sleep: they have messages, none is generated, and nobody has changed or
-- woken them for long.
-- KEYS: session of each id that is asked about…
-- ARGV: 1 how long a session must have rested, ms
-- Reply: ok, now, the ids of those that may…

local sessions, rest_ms = { KEYS[1], unpack(KEYS, 2) }, number(ARGV[1])

local now = now_ms()
local reply = { 'ok', now }
for _, session in ipairs(sessions) do
  local id, active, asleep, updated_at, woken, count =
    unpack(call('HMGET', session, 'id', 'active', 'asleep', 'updated_at', 'woken', 'messages'))
  local is_free = id and not asleep and (not active or active == '')
  local rests_since = math.max(number(updated_at) * 1000, number(woken))
  if is_free and number(count) > 0 and now - rests_since >= rest_ms then reply[#reply + 1] = id end
end
return reply
