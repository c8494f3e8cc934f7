-- Purpose: stores what holds have used so far, and renews their leases. If a gateway dies, its holds cost this much.
-- KEYS: account, hold rows, journal
-- ARGV: 1 lease ms; 2… (at most 100) `<hold id> <charge> <prompt> <cached> <completion>`
-- Reply: ok, now, status of the account, then ok or gone for each hold

local lease = tonumber(ARGV[1])

local now = now_ms()
local deadline = now + lease
local ids, progress = {}, {}
for i = 2, #ARGV do
  ids[i - 1], progress[i - 1] = match(ARGV[i], '^(%S+) (.+)$')
end
local status, next_expiry = unpack(call('HMGET', account_key, 'status', 'next_expiry'))
local reply = { 'ok', now, status or '' }
local values = call('HMGET', hold_rows, unpack(ids))
local renewed = {}
for i, id in ipairs(ids) do
  if values[i] then
    local amount, tail = match(values[i], '^(%d+) %d+ %d+ %d+ %d+ (.*) %d+$')
    add_field(renewed, id, with_deadline(amount .. ' ' .. progress[i] .. ' ' .. tail, deadline))
    reply[#reply + 1] = 'ok'
  else
    reply[#reply + 1] = 'gone'
  end
end
if #renewed > 0 then
  write_when_full()
  call('HSET', hold_rows, unpack(renewed))
  -- Only where Redis' clock went back.
  if deadline < number(next_expiry) then call('HSET', account_key, 'next_expiry', int(deadline)) end
end
return reply
