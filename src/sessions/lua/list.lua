-- Purpose: reads a page of messages in one flight, as many rows as it has room for: one row can have megabytes.
-- KEYS: session, message ids, messages
-- ARGV: 1 `<1 = upwards> <how many at most> <bytes that there is room for>`; 2 message id after which they stand, ''
--       for all
-- Reply: ok, now, how many ids, the ids…, rows in the order of the ids, '' for a missing row…; fewer rows than ids if
--        the next row has no room, but at least one row that exists, if any does
--      | session_not_found, now | asleep, now, object

local session, ids, messages = KEYS[1], KEYS[2], KEYS[3]
local upwards, count, most = match(ARGV[1], '^(%d) (%d+) (%d+)$')
local after = ARGV[2]
most = number(most)

local now = now_ms()
local id, asleep = unpack(call('HMGET', session, 'id', 'asleep'))
if not id then return { 'session_not_found', now } end
if asleep then return { 'asleep', now, asleep } end
local found
if upwards == '1' then
  local from = after == '' and '-' or '(' .. after
  found = call('ZRANGE', ids, from, '+', 'BYLEX', 'LIMIT', 0, count)
else
  local from = after == '' and '+' or '(' .. after
  found = call('ZRANGE', ids, from, '-', 'BYLEX', 'REV', 'LIMIT', 0, count)
end
local reply, size = { 'ok', now, #found, unpack(found) }, 0
for _, message in ipairs(found) do
  local row = call('HGET', messages, message) or ''
  if size > 0 and size + #row > most then break end
  reply[#reply + 1] = row
  size = size + #row
end
return reply
