-- Purpose: is this key good, and what does its account have? Reaps expired holds on the way.
-- KEYS: account, key, holds, open, journal, usage of the hour, usage of the day, settled of each hour in ARGV[1]
-- ARGV: 1 `<usage hour> <lease ms> <settled hours…>`; 2 scope, '' = any;
--       3 '1' = the operator asks: there is no key to check
-- Reply: ok, now, reaped, account id, name, plan, key id, key's models, granted, spent, reserved, owed, status,
--          the key's own limit of tokens a minute (-1 = none)
--      | clock, now | hours, now, hour… | <error code>, now, reaped, account id, key id (both not for an unknown key)

local account_key, key_key, holds, open, journal = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local usage_hour, usage_day = KEYS[6], KEYS[7]
local hour, lease, settled = read_times(ARGV[1], 8)
local scope, is_operator = ARGV[2], ARGV[3] == '1'

local now = now_ms()
local account = read_account(account_key)
local key = is_operator and { models = '*' } or read_key(key_key)
if not account.id and is_operator then return { 'account_not_found', now, 0 } end
if not account.id or (not is_operator and not key.id) then return { 'invalid_api_key', now, 0 } end
if hour ~= hour_of(now) then return { 'clock', now } end

local reap = find_expired(account, holds, open, settled, now, lease)
local ask = ask_hours(reap, now)
if ask then return ask end
local refusal = not is_operator and find_refusal(account, key, scope, now)

write_reaping(account_key, account, holds, open, journal, usage_hour, usage_day, reap)
if refusal then return { refusal, now, #reap.charges, account.id, key.id } end
if not is_operator then touch_key(key_key, key, now) end
if reap.more and is_operator then return { 'again', now, #reap.charges } end
return {
  'ok', now, #reap.charges, account.id, account.name, account.plan, key.id or '', key.models,
  int(account.granted), int(account.spent), int(account.reserved), int(account.owed),
  account.status or '', key.tpm or -1,
}
