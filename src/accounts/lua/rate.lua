-- Purpose: counts a request whose caller was identified without being counted (ledger/lua/caller.lua counts the others).
-- rate-limiter-flexible calls it in place of its own script.
-- KEYS: counter
-- ARGV: none that it reads
-- Reply: requests so far, ms until the window ends

local count, ends, now = count_request(KEYS[1])
return { count, math.max(0, math.min(WINDOW_MS, ends * 1000 - (now or now_ms()))) }
