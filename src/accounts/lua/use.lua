-- Purpose: how much of its limits an account uses now. What it stores is in storage.lua, which stands before this.
-- KEYS: account, hold rows, storage, key list
-- ARGV: 1 the quota of what it may store; 2 the same for an account without money
-- Reply: ok, now, requests and tokens of this minute, holds, bytes stored, how many it may store, keys in its list

local account, hold_rows, storage, list = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local quota, unpaid = number(ARGV[1]), number(ARGV[2])

local now = now_ms()
local found = call('HMGET', account, 'minute', 'requests', 'tokens', 'granted', 'spent', 'open', 'next_expiry')
local is_now = number(found[1]) == math.floor(now / 60000)
local requests, tokens = is_now and number(found[2]) or 0, is_now and number(found[3]) or 0
local has_money = number(found[4]) > number(found[5])
local running = number(found[6])
-- Holds whose lease has ended are open until the next request. The row of a hold ends with its lease's deadline.
if now >= number(found[7]) then
  running = 0
  for _, row in ipairs(call('HVALS', hold_rows)) do
    if number(string.sub(row, -13)) > now then running = running + 1 end
  end
end
local bytes = read_storage(storage, now).bytes
return {
  'ok', now, int(requests), int(tokens), running, int(bytes),
  int(has_money and quota or math.min(quota, unpaid)), call('HLEN', list),
}
