-- Purpose: forgets keys of an account that are dead: their rows, their places in its list, and what its own row has for them.
-- KEYS: account, key list
-- ARGV: 1 ids of the keys, with spaces between
-- Reply: ok, now

local account, list = KEYS[1], KEYS[2]
local tag = string.sub(account, 1, -1 - #'account')

local now = now_ms()
local dead = {}
for id in string.gmatch(ARGV[1], '%S+') do dead[id] = true end
local found = call('HGETALL', list)
-- A key that replaced another one counts under the first one's id, whose window stays until the last of them goes. Each
-- row is read before the first write, so that a moving slot refuses this call whole.
local rows, counters, needed = {}, {}, {}
for i = 1, #found, 2 do
  local id, row = found[i], tag .. 'key:' .. found[i + 1]
  local first = call('HGET', row, 'budget_of') or id
  local into = dead[id] and counters or needed
  into[id], into[first] = true, true
  if dead[id] then rows[id] = row end
end

for id, row in pairs(rows) do
  call('HDEL', list, id)
  call('DEL', row)
  -- While a request of the key still runs, the field stays: the end of the request lowers it.
  if number(call('HGET', account, 'open:' .. id)) == 0 then call('HDEL', account, 'open:' .. id) end
end
for id in pairs(counters) do
  local window = 'window:' .. id .. ':'
  if not needed[id] then call('HDEL', account, window .. 'day', window .. 'week', window .. 'month') end
end
return { 'ok', now }
