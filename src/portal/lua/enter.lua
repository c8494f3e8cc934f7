-- Purpose: a link for a log-in, once: of many calls with one link, one gets in. A link that was used, has ended, is none
-- of the account's, or was made before the account was suspended, is refused in one way.
-- KEYS: account, links, logins
-- ARGV: 1 the link's hash; 2 the cookie's hash; 3 ms without use; 4 ms in all; 5 how many log-ins at most
-- Reply: ok, now, account id | invalid_link, now

local account, links, logins = KEYS[1], KEYS[2], KEYS[3]
local link, hash = ARGV[1], ARGV[2]
local idle, whole, most = number(ARGV[3]), number(ARGV[4]), number(ARGV[5])

local now = now_ms()
local owner = read_owner(account)
local ends, made, return_url = match(call('HGET', links, link) or '', '^(%d+) (%d+) (.*)$')
call('HDEL', links, link)
local is_good = owner.id and ends and now < number(ends)
  and number(made) > owner.suspended_at and not owner.is_suspended
if not is_good then return { 'invalid_link', now } end

local login = { begun = now, used = now, via = 'link', return_url = return_url }
open_login(logins, hash, login, owner, idle, whole, most)
return { 'ok', now, owner.id }
