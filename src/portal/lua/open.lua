-- Purpose: begins a log-in of a person whom an identity provider has vouched for.
-- KEYS: account, logins, page keys
-- ARGV: 1 the cookie's hash; 2 idle time that ends a log-in, ms; 3 how long one lasts at most, ms;
--       4 how many log-ins an account has at most
-- Reply: ok, now, account id | account_not_found, now | account_suspended, now

local account, logins, page_keys = KEYS[1], KEYS[2], KEYS[3]
local hash, idle, whole, most = ARGV[1], number(ARGV[2]), number(ARGV[3]), number(ARGV[4])

local now = now_ms()
local owner = read_owner(account)
if not owner.id then return { 'account_not_found', now } end
if owner.is_suspended then return { 'account_suspended', now } end

local ending = find_ending(logins, page_keys, most, function(row)
  return not read_login(row, owner, now, idle, whole)
end)
end_all(logins, page_keys, ending)
local login = { begun = now, used = now, via = 'oidc', return_url = '' }
open_login(logins, hash, login, idle)
return { 'ok', now, owner.id }
