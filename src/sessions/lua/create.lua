-- Purpose: one session a claim, and each new session's id is greater than the account's last.
-- KEYS: sessions, session, claim of an Idempotency-Key (not given where none came)
-- ARGV: 1 retention, s; 2 running claim, or ''; 3 kept claim; 4… the row: fields and values, `id` first
-- Reply: ok, now | older, now, last id | claim_lost, now

local sessions, session, claim = KEYS[1], KEYS[2], KEYS[3]
local retention_s, running, kept = number(ARGV[1]), ARGV[2], ARGV[3]
local row = {}
for i = 4, #ARGV do
  row[#row + 1] = ARGV[i]
end
local id = row[2]

local now = now_ms()
if claim and call('GET', claim) ~= running then return { 'claim_lost', now } end
local last = call('ZREVRANGE', sessions, 0, 0)[1]
if last and id <= last then return { 'older', now, last } end

call('ZADD', sessions, 0, id)
call('HSET', session, unpack(row))
keep({ session }, retention_s)
if claim then call('SET', claim, kept, 'EX', 86400) end
return { 'ok', now }
