-- Purpose: removes a claim that its try did not use, unless another try has the claim by now.
-- KEYS: claim
-- ARGV: 1 the claim's value while this try has it
-- Reply: ok, now | claim_lost, now

local claim = KEYS[1]
local running = ARGV[1]

if call('GET', claim) ~= running then return { 'claim_lost', now_ms() } end
call('DEL', claim)
return { 'ok', now_ms() }
