-- Purpose: writes all rows of a send, or none: the new messages,
-- the answer in progress, its stream, the session's lock.
-- KEYS: session, message ids, messages, stream of the answer, hold rows, storage, account, claim of an Idempotency-Key
--       (not given where none came)
-- ARGV: 1 `<hold> <version of the history that was read> <bytes a session may have> <quota> <quota without money>`;
--       2 `<now, s> <retention, s>`; 3 running claim, or ''; 4 kept claim; 5… id and row of each message, the answer last
-- Reply: ok, now | session_not_found, now | session_busy, now, message id | no_hold, now | changed, now
--      | claim_lost, now | older, now, the session's last message id | full, now, bytes it has
--      | storage_quota_exceeded, now | asleep, now, object

local session, ids, messages, stream, hold_rows = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local storage, account, claim = KEYS[6], KEYS[7], KEYS[8]
local hold, seen, most, quota, unpaid = match(ARGV[1], '^(%S+) (%S+) (%d+) (%d+) (%d+)$')
local seconds, retention = match(ARGV[2], '^(%d+) (%d+)$')
local running, kept, first_row = ARGV[3], ARGV[4], 5

local now = now_ms()
local found =
  call('HMGET', session, 'id', 'active', 'last', 'bytes', 'messages', 'counted', 'ends', 'asleep')
local id, active, last, bytes, count, counted, ends, asleep = unpack(found)
if not id then return { 'session_not_found', now } end
if asleep then return { 'asleep', now, asleep } end
if active and active ~= '' then return { 'session_busy', now, active } end
if history_version(last, ends) ~= seen then return { 'changed', now } end
if call('HEXISTS', hold_rows, hold) == 0 then return { 'no_hold', now } end
if claim and call('GET', claim) ~= running then return { 'claim_lost', now } end
if last and ARGV[first_row] <= last then return { 'older', now, last } end
local rows, scored, size, more = {}, {}, 0, RUNNING_BYTES
for i = first_row, #ARGV, 2 do
  local message, row = ARGV[i], ARGV[i + 1]
  rows[#rows + 1] = message
  rows[#rows + 1] = row
  scored[#scored + 1] = 0
  scored[#scored + 1] = message
  size = size + #row
  more = more + MESSAGE_BYTES + weight(#row)
end
local answer = ARGV[#ARGV - 1]
if number(bytes) + size > tonumber(most) then return { 'full', now, int(number(bytes)) } end
local stored = read_storage(storage, now)
if not fits(account, stored.bytes + more + CLAIM_BYTES, number(quota), number(unpaid)) then
  return { 'storage_quota_exceeded', now }
end

call('ZADD', ids, unpack(scored))
call('HSET', messages, unpack(rows))
call('HSET', session, 'active', answer, 'last', answer, 'updated_at', seconds,
  'bytes', int(number(bytes) + size), 'messages', int(number(count) + #rows / 2),
  'counted', int(number(counted) + more))
call('HSET', stream, 'hold', hold, 'next', 0, 'bytes', 0, 'touched', int(now), 'counted', RUNNING_BYTES)
if claim then
  call('SET', claim, kept, 'EX', 86400)
  call('HSET', storage, 'sessions', int(stored.sessions + more),
    'claims', sum_with(stored.claims, CLAIM_BYTES, now, CLAIM_MS))
else
  call('HSET', storage, 'sessions', int(stored.sessions + more))
end
keep(session, { ids, messages, stream }, tonumber(retention), storage, id, number(counted) + more)
return { 'ok', now }
