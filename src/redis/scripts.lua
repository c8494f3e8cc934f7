-- Purpose: the beginning of every script; scripts.ts puts this text in front of each.
-- Amounts are answered as text by int(): ioredis reads integer replies near 2^53 wrong by one, and `..` and tostring
-- print only 14 digits.

local call, format, match = redis.call, string.format, string.match

local function int(n)
  return format('%d', n)
end

-- A reply as one text, a value a line: ioredis takes as long for each value of a list as for all of the text. The values are
-- texts without line ends, of int() too, and whole numbers below 10^14.
local function packed(values)
  return table.concat(values, '\n')
end

-- A missing or empty field counts as 0.
local function number(text)
  return tonumber(text or 0) or 0
end

local function now_ms()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function uptime_ms()
  return number(match(call('INFO', 'server'), 'uptime_in_seconds:(%d+)')) * 1000
end

