-- Purpose: lets a claim go that its try did not use, unless another try has it by now.
-- KEYS: claim
-- ARGV: 1 what stands there while it is that try's
-- Reply: ok, now | claim_lost, now

local claim = KEYS[1]
local running = ARGV[1]

if call('GET', claim) ~= running then return { 'claim_lost', now_ms() } end
call('DEL', claim)
return { 'ok', now_ms() }
