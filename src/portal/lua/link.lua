-- Purpose: keeps a portal link of an account. Their number is bounded: a further one pushes out the oldest.
-- KEYS: account, links
-- ARGV: 1 its hash; 2 how long it works, ms; 3 how many at most; 4 where its page leads back to, or ''
-- Reply: ok, now | account_not_found, now | account_deleted, now | account_suspended, now

local account, links = KEYS[1], KEYS[2]
local hash, life, most, return_url = ARGV[1], number(ARGV[2]), number(ARGV[3]), ARGV[4]

local now = now_ms()
local owner = read_owner(account)
if not owner.id then return { 'account_not_found', now } end
if owner.is_deleted then return { 'account_deleted', now } end
if owner.is_suspended then return { 'account_suspended', now } end

local gone = find_surplus(links, most, ended_by(now))
for _, one in ipairs(gone) do call('HDEL', links, one) end
call('HSET', links, hash, int(now + life) .. ' ' .. int(now) .. ' ' .. return_url)
call('PEXPIRE', links, int(life))
return { 'ok', now }
