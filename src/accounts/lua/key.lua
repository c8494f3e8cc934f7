-- Purpose: writes a key and lists it, if the account's list has room. A listed key is complete; it is not written again,
-- because it may have been revoked since.
-- KEYS: account, key list, key
-- ARGV: 1 key id; 2 its HMAC; 3 how many keys the list may have, or ''; 4… the row: names and values in turn
-- Reply: ok, now | account_not_found, now | account_deleted, now | key_limit_reached, now

local account, list, key = KEYS[1], KEYS[2], KEYS[3]
local id, hmac, most = ARGV[1], ARGV[2], tonumber(ARGV[3])

local now = now_ms()
if call('HEXISTS', account, 'id') == 0 then return { 'account_not_found', now } end
if call('HEXISTS', account, 'closed_at') == 1 then return { 'account_deleted', now } end
if call('HEXISTS', list, id) == 1 then return { 'ok', now } end
if most and call('HLEN', list) >= most then return { 'key_limit_reached', now } end
call('HSET', key, unpack(ARGV, 4))
call('HSET', list, id, hmac)
return { 'ok', now }
