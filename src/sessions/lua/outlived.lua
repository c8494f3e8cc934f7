-- Purpose: gives back what sessions counted that have expired, and forgets their ids.
-- KEYS: storage, sessions, session of each id in ARGV…
-- ARGV: 1… their ids
-- Reply: ok, now, how many

local storage, sessions, first_session = KEYS[1], KEYS[2], 3
local gone, bytes = {}, 0

for i, id in ipairs(ARGV) do
  if call('EXISTS', KEYS[first_session + i - 1]) == 0 then
    gone[#gone + 1] = id
    bytes = bytes + number(call('HGET', storage, id))
  end
end
if #gone > 0 then
  call('ZREM', sessions, unpack(gone))
  call('HDEL', storage, unpack(gone))
  if call('HINCRBY', storage, 'sessions', int(-bytes)) <= 0 then call('HDEL', storage, 'sessions') end
end
return { 'ok', now_ms(), #gone }
