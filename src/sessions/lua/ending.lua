-- Purpose: what finish and lost share: writes the final row and frees the session. A deleted session stays deleted.

-- `stream` has the bytes of its frames (`bytes`), what the session counted for the
-- frames (`counted`) and how long they are kept (`kept_ms`). From now on the
-- frames count in a window of the account's storage, and no longer in the session.
local function end_message(session, ids, messages, storage, message, row, seconds, retention, now, stream)
  local stored = read_storage(storage, now)
  local taken = STREAM_BYTES + weight(stream.bytes)
  local frames = window_with(stored.frames, taken, now, number(stream.kept_ms))
  local old_row = call('HGET', messages, message)
  local found = call('HMGET', session, 'id', 'active', 'bytes', 'counted', 'last', 'messages', 'ends')
  local id, active, bytes, counted_before, last, count, ends = unpack(found)
  if not id or row == '' then
    call('HSET', storage, 'frames', frames)
    return
  end
  counted_before = number(counted_before)
  local old_bytes = old_row and #old_row or 0
  local more = weight(#row) - weight(old_bytes)
  if not old_row then
    -- Redis has lost the message: only the row from the caller is left of it.
    local added = call('ZADD', ids, 0, message)
    local greatest = last and last > message and last or message
    call('HSET', session, 'messages', int(number(count) + added), 'last', greatest)
    more = more + MESSAGE_BYTES
  end
  call('HSET', messages, message, row)
  local counted = math.max(0, counted_before + more - number(stream.counted))
  call('HSET', session, 'updated_at', seconds, 'bytes', int(number(bytes) + #row - old_bytes),
    'counted', int(counted), 'ends', int(number(ends) + 1))
  call('HSET', storage, 'sessions', int(stored.sessions + counted - counted_before), 'frames', frames)
  if active == message then call('HDEL', session, 'active') end
  keep(session, { ids, messages }, tonumber(retention), storage, id, counted)
end

