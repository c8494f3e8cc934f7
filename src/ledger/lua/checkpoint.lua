-- Purpose: stores what holds have used so far, and renews their leases. If a gateway dies, its holds cost this much.
-- KEYS: account, hold leases, hold rows, journal
-- ARGV: 1 lease ms; 2… (at most 100) `<hold id> <charge> <prompt> <cached> <completion>`
-- Reply: ok, now, status of the account, then ok or gone for each hold

local lease = tonumber(ARGV[1])

local now = now_ms()
local deadline = int(now + lease)
local ids, progress = {}, {}
for i = 2, #ARGV do
  ids[i - 1], progress[i - 1] = match(ARGV[i], '^(%S+) (.+)$')
end
local reply = { 'ok', now, call('HGET', account_key, 'status') or '' }
local values = call('HMGET', hold_rows, unpack(ids))
local renewed, leases = {}, {}
for i, id in ipairs(ids) do
  if values[i] then
    local amount, tail = match(values[i], '^(%d+) %d+ %d+ %d+ %d+ (.*)$')
    add_field(renewed, id, amount .. ' ' .. progress[i] .. ' ' .. tail)
    add_field(leases, deadline, id)
    reply[#reply + 1] = 'ok'
  else
    reply[#reply + 1] = 'gone'
  end
end
if #renewed > 0 then
  write_when_full()
  call('HSET', hold_rows, unpack(renewed))
  call('ZADD', hold_leases, unpack(leases))
end
return reply
