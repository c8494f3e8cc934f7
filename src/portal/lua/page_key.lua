-- Purpose: makes a key of the playground for a log-in. All such keys of an account have one id, so that usage by key
-- has one row for them. Their number is bounded: a further one ends the oldest. None outlives its log-in.
-- KEYS: account, logins, page keys, key
-- ARGV: 1 the log-in; 2 the key's HMAC; 3 an id, if the account has none yet; 4 ms that it lives; 5 how many at most;
--       6 hint; 7 scopes; 8 idle time that ends a log-in, ms; 9 how long one lasts at most, ms
-- Reply: ok, now, key id, when it expires in Unix seconds | not_logged_in, now

local account, logins, page_keys, key = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local login, hmac, id = ARGV[1], ARGV[2], ARGV[3]
local longest, most, hint, scopes = number(ARGV[4]), number(ARGV[5]), ARGV[6], ARGV[7]
local idle, whole = number(ARGV[8]), number(ARGV[9])

local now = now_ms()
local known = read_login(call('HGET', logins, login), read_owner(account), now, idle, whole)
if not known then return { 'not_logged_in', now } end
local life = math.min(longest, known.begun + whole - now)
local gone = find_surplus(page_keys, most, ended_by(now))
ask_for_page_keys(page_keys, gone)

end_page_keys(page_keys, gone)
call('HSETNX', account, 'page_key', id)
id = call('HGET', account, 'page_key')
local expires = math.floor((now + life) / 1000)
call('HSET', key, 'id', id, 'name', 'Playground', 'hint', hint, 'scopes', scopes, 'models', '*',
  'created_at', int(math.floor(now / 1000)), 'expires_at', int(expires))
-- The row stays ten minutes longer than the key is valid: its caller is then told that it has expired.
call('PEXPIRE', key, int(life + 600000))
call('HSET', page_keys, hmac, int(now + life) .. ' ' .. login)
call('PEXPIRE', page_keys, int(longest + 600000))
return { 'ok', now, id, expires }
