-- Purpose: counts requests in a window of a minute that begins with the first of them. One number has the end of the
-- window and the count, so one command does both: it counts, and it tells to a minute what time it is. Stands before the
-- scripts that count.

local WINDOW_MS = 60000
-- The number is `<end of the window, s> * COUNTS + <count>`.
local COUNTS = 2097152

-- Counts a request. Returns how many the window has by now and when it ends, s, rounded up; and Redis' time, ms, of a new
-- window alone.
local function count_request(counter)
  local number_now = call('INCR', counter)
  if number_now >= COUNTS then
    local count = number_now % COUNTS
    -- One more would move the end of the window.
    if count == COUNTS - 1 then call('DECR', counter) end
    return count, math.floor(number_now / COUNTS)
  end
  local now = now_ms()
  local ends = math.ceil((now + WINDOW_MS) / 1000)
  call('PSETEX', counter, WINDOW_MS, int(ends * COUNTS + 1))
  return 1, ends, now
end

