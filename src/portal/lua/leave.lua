-- Purpose: ends a log-in, and the keys of the playground that it has.
-- KEYS: logins, page keys
-- ARGV: 1 the cookie's hash
-- Reply: ok, now

local logins, page_keys = KEYS[1], KEYS[2]
local hash = ARGV[1]
local tag = string.sub(logins, 1, -1 - #'logins')

local found = call('HGETALL', page_keys)
local own = {}
for i = 1, #found, 2 do
  if match(found[i + 1], '^%d+ (.*)$') == hash then own[#own + 1] = found[i] end
end
-- Only so that a moving slot refuses these keys before the first write.
for _, hmac in ipairs(own) do call('EXISTS', tag .. 'key:' .. hmac) end

for _, hmac in ipairs(own) do
  call('HDEL', page_keys, hmac)
  call('DEL', tag .. 'key:' .. hmac)
end
call('HDEL', logins, hash)
return { 'ok', now_ms() }
