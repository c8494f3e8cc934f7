-- Purpose: creates a session, one at most for each claim, with an id greater than that of the account's last session.
-- KEYS: sessions, session, storage, account, claim of an Idempotency-Key (not given where none came)
-- ARGV: 1 `<retention, s> <quota> <quota without money>`; 2 running claim, or ''; 3 kept claim;
--       4… the row: fields and values, `id` first
-- Reply: ok, now | older, now, last id | claim_lost, now | storage_quota_exceeded, now

local sessions, session, storage, account, claim = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local retention_s, quota, unpaid = match(ARGV[1], '^(%d+) (%d+) (%d+)$')
local running, kept = ARGV[2], ARGV[3]
local row = { unpack(ARGV, 4) }
local id = row[2]
local counted = SESSION_BYTES
for value = 2, #row, 2 do
  counted = counted + weight(#row[value])
end

local now = now_ms()
if claim and call('GET', claim) ~= running then return { 'claim_lost', now } end
local last = call('ZREVRANGE', sessions, 0, 0)[1]
if last and id <= last then return { 'older', now, last } end
local stored = read_storage(storage, now)
local more = claim and counted + CLAIM_BYTES or counted
if not fits(account, stored.bytes + more, number(quota), number(unpaid)) then
  return { 'storage_quota_exceeded', now }
end

call('ZADD', sessions, 0, id)
call('HSET', session, 'counted', int(counted), unpack(row))
call('HSET', storage, 'sessions', int(stored.sessions + counted))
if claim then
  call('SET', claim, kept, 'EX', 86400)
  call('HSET', storage, 'claims', sum_with(stored.claims, CLAIM_BYTES, now, CLAIM_MS))
end
keep(session, {}, number(retention_s), storage, id, counted)
return { 'ok', now }
