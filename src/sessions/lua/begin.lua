-- Purpose: a send's rows, all at once or none: the new messages, the answer in progress, its stream, the session's lock.
-- KEYS: session, message ids, messages, stream of the answer, open holds, claim of an Idempotency-Key
--       (not given where none came)
-- ARGV: 1 `<hold> <the session's last message id when its history was read, or -> <bytes a session may have>`;
--       2 `<now, s> <retention, s>`; 3 running claim, or ''; 4 kept claim; 5… id and row of each message, the answer last
-- Reply: ok, now | session_not_found, now | session_busy, now, message id | no_hold, now | changed, now
--      | claim_lost, now | older, now, the session's last message id | full, now, bytes it has

local session, ids, messages, stream, open, claim = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local hold, seen, most = match(ARGV[1], '^(%S+) (%S+) (%d+)$')
local seconds, retention = match(ARGV[2], '^(%d+) (%d+)$')
local running, kept, first_row = ARGV[3], ARGV[4], 5

local now = now_ms()
local found = call('HMGET', session, 'id', 'active', 'last', 'bytes', 'messages')
local id, active, last, bytes, count = unpack(found)
if not id then return { 'session_not_found', now } end
if active and active ~= '' then return { 'session_busy', now, active } end
if (last or '-') ~= seen then return { 'changed', now } end
if call('HEXISTS', open, hold) == 0 then return { 'no_hold', now } end
if claim and call('GET', claim) ~= running then return { 'claim_lost', now } end
if last and ARGV[first_row] <= last then return { 'older', now, last } end
local rows, size, answer = {}, 0, nil
for i = first_row, #ARGV, 2 do
  answer = ARGV[i]
  rows[#rows + 1] = answer
  rows[#rows + 1] = ARGV[i + 1]
  size = size + #ARGV[i + 1]
end
if number(bytes) + size > tonumber(most) then return { 'full', now, int(number(bytes)) } end

for i = 1, #rows, 2 do
  call('ZADD', ids, 0, rows[i])
end
call('HSET', messages, unpack(rows))
call('HSET', session, 'active', answer, 'last', answer, 'updated_at', seconds,
  'bytes', int(number(bytes) + size), 'messages', int(number(count) + #rows / 2))
call('HSET', stream, 'hold', hold, 'next', 0, 'bytes', 0, 'touched', int(now))
if claim then call('SET', claim, kept, 'EX', 86400) end
keep({ session, ids, messages, stream }, tonumber(retention))
return { 'ok', now }
