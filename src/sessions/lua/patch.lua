-- Purpose: changes fields of an existing session; never creates one.
-- KEYS: session, message ids, messages, storage, account
-- ARGV: 1 `<retention, s> <quota> <quota without money>`; 2… fields and values
-- Reply: ok, now, the whole row as fields and values | session_not_found, now | storage_quota_exceeded, now

local session, ids, messages, storage, account = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local retention_s, quota, unpaid = match(ARGV[1], '^(%d+) (%d+) (%d+)$')
local first_field = 2

local now = now_ms()
local id, created, before = unpack(call('HMGET', session, 'id', 'created_at', 'counted'))
if not created then return { 'session_not_found', now } end
local more = 0
for i = first_field, #ARGV, 2 do
  more = more + weight(#ARGV[i + 1]) - weight(call('HSTRLEN', session, ARGV[i]))
end
before = number(before)
local counted = math.max(0, before + more)
local stored = read_storage(storage, now)
if more > 0 and not fits(account, stored.bytes + more, number(quota), number(unpaid)) then
  return { 'storage_quota_exceeded', now }
end

-- `created_at` comes from the clock of a gateway, which may be ahead of the clock of Redis.
local updated = math.max(number(created), math.floor(now / 1000))
call('HSET', session, 'updated_at', int(updated), 'counted', int(counted), unpack(ARGV, first_field))
call('HSET', storage, 'sessions', int(stored.sessions + counted - before))
keep(session, { ids, messages }, number(retention_s), storage, id, counted)
return { 'ok', now, call('HGETALL', session) }
