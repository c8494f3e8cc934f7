-- Purpose: removes from the account's row what it has for keys that are dead, before they are forgotten.
-- KEYS: account
-- ARGV: 1 ids of the keys; 2 ids under whose name no key that stays has a budget; each with spaces between
-- Reply: ok, now

local account, dead, budgets = KEYS[1], ARGV[1], ARGV[2]

local now = now_ms()
for id in string.gmatch(dead, '%S+') do
  -- A request may still run: then its end counts down.
  if number(call('HGET', account, 'open:' .. id)) == 0 then call('HDEL', account, 'open:' .. id) end
end
for id in string.gmatch(budgets, '%S+') do
  local window = 'window:' .. id .. ':'
  call('HDEL', account, window .. 'day', window .. 'week', window .. 'month')
end
return { 'ok', now }
