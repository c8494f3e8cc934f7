-- Purpose: reads what a send needs of its session in one flight:
-- the settings, and the newest messages or those before an id.
-- KEYS: session, message ids, messages
-- ARGV: 1 message id before which they stand, '' for the newest; 2 how many at most; 3 bytes that there is room for;
--       4 '1' = at least one row, however large
-- Reply: ok, now, 1 = there are more, model, instructions, greatest message id, active message,
--        version of the history, rows, newest first…
--      | session_not_found, now | asleep, now, object

local session, ids, messages = KEYS[1], KEYS[2], KEYS[3]
local before, count, most, takes_one = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'

local now = now_ms()
local id, model, instructions, last, active, ends, asleep = unpack(
  call('HMGET', session, 'id', 'model', 'instructions', 'last', 'active', 'ends', 'asleep'))
if not id then return { 'session_not_found', now } end
if asleep then return { 'asleep', now, asleep } end
local from = before == '' and '+' or '(' .. before
local found = call('ZRANGE', ids, from, '-', 'BYLEX', 'REV', 'LIMIT', 0, count + 1)
local version = history_version(last, ends)
local reply = { 'ok', now, 0, model or '', instructions or '', last or '', active or '', version }
local size = 0
for i, message in ipairs(found) do
  size = size + call('HSTRLEN', messages, message)
  local has_room = size <= most or (i == 1 and takes_one)
  if i > count or not has_room then
    reply[3] = 1
    break
  end
  reply[#reply + 1] = call('HGET', messages, message) or ''
end
return reply
