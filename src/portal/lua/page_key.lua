-- Purpose: makes a key of the playground for a log-in. All such keys of an account have one id, so that usage by key has
-- one row for them; there are only so many, and a further one ends the oldest.
-- KEYS: account, logins, page keys, key
-- ARGV: 1 the log-in; 2 the key's HMAC; 3 an id, if the account has none yet; 4 ms that it lives; 5 how many at most;
--       6 hint; 7 scopes
-- Reply: ok, now, key id | not_logged_in, now

local account, logins, page_keys, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local login, hmac, id = ARGV[1], ARGV[2], ARGV[3]
local life, most, hint, scopes = number(ARGV[4]), number(ARGV[5]), ARGV[6], ARGV[7]
local tag = string.sub(account, 1, -1 - #'account')

local now = now_ms()
local is_suspended = call('HGET', account, 'status') == 'suspended'
if is_suspended or call('HEXISTS', logins, login) == 0 then return { 'not_logged_in', now } end
local found = call('HGETALL', page_keys)
local all = {}
for i = 1, #found, 2 do
  all[#all + 1] = { hmac = found[i], ends = number(match(found[i + 1], '^%d+')) }
end
table.sort(all, function(a, b) return a.ends < b.ends end)
local gone = {}
for i, one in ipairs(all) do
  if one.ends <= now or i <= #all - most + 1 then gone[#gone + 1] = one.hmac end
end
-- Only so that a moving slot refuses these keys before the first write.
for _, one in ipairs(gone) do call('EXISTS', tag .. 'key:' .. one) end

for _, one in ipairs(gone) do
  call('HDEL', page_keys, one)
  call('DEL', tag .. 'key:' .. one)
end
call('HSETNX', account, 'page_key', id)
id = call('HGET', account, 'page_key')
local seconds = math.floor(now / 1000)
call('HSET', key, 'id', id, 'name', 'Playground', 'hint', hint, 'scopes', scopes, 'models', '*',
  'created_at', int(seconds), 'expires_at', int(seconds + math.floor(life / 1000)))
call('PEXPIRE', key, int(life + 600000))
call('HSET', page_keys, hmac, int(now + life) .. ' ' .. login)
call('PEXPIRE', page_keys, int(life + 600000))
return { 'ok', now, id }
