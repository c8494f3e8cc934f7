-- Purpose: what finish and lost share: the row as it stays, and the session free again. A deleted session stays deleted.

-- `stream` has what its frames take (`bytes`), what the session counted for them (`counted`) and how long they stay
-- (`kept_ms`): from now on they count by themselves.
local function end_message(session, ids, messages, storage, message, row, seconds, retention, now, stream)
  local stored = read_storage(storage, now)
  local taken = STREAM_BYTES + weight(stream.bytes)
  local frames = window_with(stored.frames, taken, now, number(stream.kept_ms))
  local before = call('HGET', messages, message)
  if not before then
    call('HSET', storage, 'frames', frames)
    return
  end
  call('HSET', messages, message, row)
  local id, active, bytes, was = unpack(call('HMGET', session, 'id', 'active', 'bytes', 'counted'))
  was = number(was)
  local counted = math.max(0, was + weight(#row) - weight(#before) - number(stream.counted))
  call('HSET', session, 'updated_at', seconds, 'bytes', int(number(bytes) + #row - #before),
    'counted', int(counted))
  call('HSET', storage, 'sessions', int(stored.sessions + counted - was), 'frames', frames)
  if active == message then call('HDEL', session, 'active') end
  keep(session, { ids, messages }, tonumber(retention), storage, id, counted)
end

