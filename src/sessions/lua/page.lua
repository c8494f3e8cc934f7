-- Purpose: reads rows of messages in one flight, as many as a page has room for: one row can have megabytes.
-- KEYS: messages
-- ARGV: 1 bytes that there is room for; 2… ids
-- Reply: ok, now, rows in the order of the ids, '' for a missing row…; at least one row that exists, if any does

local messages, most, first_id = KEYS[1], tonumber(ARGV[1]), 2

local reply, size = { 'ok', now_ms() }, 0
for i = first_id, #ARGV do
  local row = call('HGET', messages, ARGV[i]) or ''
  if size > 0 and size + #row > most then break end
  reply[#reply + 1] = row
  size = size + #row
end
return reply
