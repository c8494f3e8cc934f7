-- Purpose: checks the key of a request that makes no hold, and counts the request, after one reaping at most. It asks for the
-- time only where something depends on it: the window is new, the key has an end, it is used for the first time in this
-- window, or holds have reserved something. A refused key counts no request.
-- KEYS: account, hold rows, journal, key, counter of requests
-- ARGV: 1 scope, '' = any; 2 1 = the caller wants the time in any case; 3 1 = reap.lua was called for this request before
-- Reply: ok, now (0 = was not asked for), account id, plan, key id, key's models, owed,
--          the key's own limit of tokens a minute (-1 = none), requests of this window (-1 = could not be counted), when
--          the window ends, s
--      | reap, now: reap.lua has to be called first
--      | <error code>, now, account id, key id (an unknown key or account has neither)

local key_key, counter = KEYS[4], KEYS[5]
local scope, wants_time, reaped = ARGV[1], ARGV[2] == '1', ARGV[3]

local id, status, plan, owed, reserved, next_expiry =
  unpack(call('HMGET', account_key, 'id', 'status', 'plan', 'owed', 'reserved', 'next_expiry'))
local key = read_key(key_key)
local now = (wants_time or key.revoked_at or key.expires_at) and now_ms() or 0
if not id or not key.id then return { 'invalid_api_key', now } end
local refusal = find_refusal(status, key, scope, now)
if refusal then return { refusal, now, id, key.id } end
if reaped == '0' and number(reserved) > 0 then
  if now == 0 then now = now_ms() end
  if now >= number(next_expiry) then return { 'reap', now } end
end

-- When Redis' memory is full, the key is good all the same.
local is_counted, count, ends, began = pcall(count_request, counter)
if not is_counted then count, ends = -1, 0 end
if began then now = began end
-- Noted once in a window; its end was rounded up by up to a second. By pcall, as touch_key does it.
if key.last_used_at < ends - WINDOW_MS / 1000 - 1 then
  if now == 0 then now = now_ms() end
  redis.pcall('HSET', key_key, 'last_used_at', int(math.floor(now / 1000)))
end
return {
  'ok', now, id, plan or 'default', key.id, key.models, int(number(owed)), key.tpm or -1, count, ends,
}
