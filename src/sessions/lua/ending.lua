-- Purpose: what finish and lost share: the row as it stays, and the session free again. A deleted session stays deleted.

local function end_message(session, ids, messages, message, row, seconds, retention)
  local before = call('HGET', messages, message)
  if not before then return end
  call('HSET', messages, message, row)
  local active, bytes = unpack(call('HMGET', session, 'active', 'bytes'))
  call('HSET', session, 'updated_at', seconds, 'bytes', int(number(bytes) + #row - #before))
  if active == message then call('HDEL', session, 'active') end
  keep({ session, ids, messages }, tonumber(retention))
end

