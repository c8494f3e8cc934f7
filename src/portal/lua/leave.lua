-- Purpose: ends a log-in, and the keys of the playground that it has.
-- KEYS: logins, page keys
-- ARGV: 1 the cookie's hash
-- Reply: ok, now

local logins, page_keys = KEYS[1], KEYS[2]
local hash = ARGV[1]

local own = find_page_keys(page_keys, function(login) return login == hash end)
end_page_keys(page_keys, own)
call('HDEL', logins, hash)
return { 'ok', now_ms() }
