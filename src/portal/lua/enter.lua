-- Purpose: exchanges a link for a log-in, once: of many calls with one link, one gets in. A link that was used, has
-- expired, belongs to no account, or is older than the account's suspension, is refused in the same way.
-- KEYS: account, links, logins, page keys
-- ARGV: 1 the link's hash; 2 the cookie's hash; 3 idle time that ends a log-in, ms; 4 how long one lasts at
--       most, ms; 5 how many log-ins at most
-- Reply: ok, now, account id | invalid_link, now

local account, links, logins, page_keys = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local link, hash = ARGV[1], ARGV[2]
local idle, whole, most = number(ARGV[3]), number(ARGV[4]), number(ARGV[5])

local now = now_ms()
local owner = read_owner(account)
local ends, made, return_url = match(call('HGET', links, link) or '', '^(%d+) (%d+) (.*)$')
local is_good = owner.id and ends and now < number(ends)
  and number(made) > owner.suspended_at and not owner.is_suspended
local ending = is_good and find_ending(logins, page_keys, most, function(row)
  return not read_login(row, owner, now, idle, whole)
end)

call('HDEL', links, link)
if not is_good then return { 'invalid_link', now } end
end_all(logins, page_keys, ending)
local login = { begun = now, used = now, via = 'link', return_url = return_url }
open_login(logins, hash, login, idle)
return { 'ok', now, owner.id }
