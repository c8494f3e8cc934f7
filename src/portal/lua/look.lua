-- Purpose: tells whose log-in a cookie belongs to. Notes, at most once a minute, that the log-in is used, so that it does
-- not end; a Redis that refuses this write, because its memory is full, can still answer.
-- KEYS: account, logins
-- ARGV: 1 the cookie's hash; 2 idle time that ends a log-in, ms; 3 how long one lasts at most, ms
-- Reply: ok, now, account id, name, plan, link or oidc, where the page leads back to or ''
--      | not_logged_in, now | account_suspended, now

local account, logins = KEYS[1], KEYS[2]
local hash, idle, whole = ARGV[1], number(ARGV[2]), number(ARGV[3])

local now = now_ms()
local owner = read_owner(account)
local row = call('HGET', logins, hash)
local login = read_login(row, owner, now, idle, whole)
if not owner.id or not login then
  if row then call('HDEL', logins, hash) end
  if row and owner.is_suspended then return { 'account_suspended', now } end
  return { 'not_logged_in', now }
end
if now - login.used >= 60000 then
  local times = int(login.begun) .. ' ' .. int(now)
  redis.pcall('HSET', logins, hash, times .. ' ' .. login.via .. ' ' .. login.return_url)
  redis.pcall('PEXPIRE', logins, int(idle))
end
return { 'ok', now, owner.id, owner.name, owner.plan, login.via, login.return_url }
