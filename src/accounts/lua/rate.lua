-- Purpose: counts units in a window that begins with the first of them. rate-limiter-flexible calls it in place of its own
-- script, which has one command more: it sets a counter to 0 before it adds to it.
-- KEYS: counter
-- ARGV: 1 units; 2 length of the window, s
-- Reply: units so far, ms until the window ends

local counter = KEYS[1]
local units, seconds = ARGV[1], ARGV[2]

local count = redis.call('INCRBY', counter, units)
local left_ms = redis.call('PTTL', counter)
-- The counter is new, or was left without an end.
if left_ms == -1 then
  redis.call('EXPIRE', counter, seconds)
  left_ms = seconds * 1000
end
return { count, left_ms }
