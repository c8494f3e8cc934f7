-- Purpose: gives back the storage that expired sessions counted, and forgets their ids.
-- KEYS: storage, sessions, session of each id in ARGV…
-- ARGV: 1… their ids
-- Reply: ok, now, how many

-- KEYS[3] by its number: test/mirror.ts looks for each key that the header names.
local storage, sessions, rows = KEYS[1], KEYS[2], { KEYS[3], unpack(KEYS, 4) }
local gone, bytes = {}, 0

for i = 1, #ARGV do
  local id = ARGV[i]
  if call('EXISTS', rows[i]) == 0 then
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
