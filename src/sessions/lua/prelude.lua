-- Purpose: what the scripts of sessions share: how long keys are kept, the version of a session's history, a stream that
-- Redis has lost, the end of a message. Stands after accounts/lua/storage.lua, whose functions it calls.

-- A retention of 0 keeps the keys for ever, also keys that were written under another retention. For a session that may
-- expire, the row of the account's storage notes what the session counts, because Redis does not tell when it expires.
local function keep(session, others, retention_s, storage, id, counted)
  if retention_s > 0 then
    call('EXPIRE', session, retention_s)
    for _, key in ipairs(others) do
      call('EXPIRE', key, retention_s)
    end
    call('HSET', storage, id, int(counted))
  -- PERSIST answers 1 only for a key that had an expiry.
  elseif call('PERSIST', session) == 1 then
    for _, key in ipairs(others) do
      call('PERSIST', key)
    end
    call('HDEL', storage, id)
  end
end

-- A text that changes with every change of a session's messages, except when a failed send is withdrawn. `last` is the
-- greatest message id that the session has had. An answer keeps its id when it ends, or gets another end: so `ends` counts
-- these.
local function history_version(last, ends)
  return (last or '-') .. ':' .. (ends or '0')
end

local function has_status(row, status)
  -- This text cannot stand within a value: there, its quotes would have backslashes.
  return row and string.find(row, '"status":"' .. status .. '"', 1, true)
end

-- Returns 'forgotten' when the session is gone too; 'lost' when the message has ended and its frames are no longer
-- kept, or when the session sleeps in the store; nothing when the owner may begin the stream again.
local function why_gone(session, messages, message)
  local id, asleep = unpack(call('HMGET', session, 'id', 'asleep'))
  if not id then return 'forgotten' end
  if asleep then return 'lost' end
  local row = call('HGET', messages, message)
  if row and not has_status(row, 'in_progress') then return 'lost' end
end

-- Lets a key expire together with another one, which has `left_ms` left, or -1 if it stays for ever. In the other's last
-- millisecond this is 0, and PEXPIRE would delete the key: whoever writes to it next would make it anew, for ever.
local function expire_in(key, left_ms)
  if left_ms >= 0 then call('PEXPIRE', key, int(math.max(1, left_ms))) end
end

-- The new stream expires with its session, as the lost stream did. Frames that are left of the lost stream are deleted,
-- because the owner sends them again.
local function begin_anew(stream, frames, session, hold)
  call('DEL', frames)
  call('HSET', stream, 'hold', hold)
  expire_in(stream, call('PTTL', session))
end

-- What the end of a message needs of its session.
local function read_session(session)
  local found =
    call('HMGET', session, 'id', 'active', 'bytes', 'counted', 'last', 'messages', 'ends', 'asleep')
  local id, active, bytes, counted, last, count, ends, asleep = unpack(found)
  return {
    id = id, active = active, bytes = number(bytes), counted = number(counted), last = last,
    count = number(count), ends = number(ends), asleep = asleep,
  }
end

-- Writes the final row of a message and frees the session; a deleted session stays deleted. An empty row is of a message
-- that was deleted: then only the frames are counted. From now on the frames count in a rolling sum of the account's
-- storage, and no longer in the session. `before` is the session as `read_session` has it; it is awake. `place` has the
-- names of keys (`session`, `ids`, `messages`, `storage`) and the id of the message (`message`). `ending` has the `row`; the
-- time by Redis in ms (`now`) and by the gateway (`seconds`); the `retention` of the session; and of the frames, their
-- bytes (`bytes`), what the session counted for them (`counted`), and how long they are kept (`kept_ms`).
local function end_message(before, place, ending)
  local session, ids, messages, storage, message =
    place.session, place.ids, place.messages, place.storage, place.message
  local row, now = ending.row, ending.now
  local stored = read_storage(storage, now)
  local taken = STREAM_BYTES + weight(ending.bytes)
  local frames = sum_with(stored.frames, taken, now, number(ending.kept_ms))
  local old_row = call('HGET', messages, message)
  if not before.id or row == '' then
    call('HSET', storage, 'frames', frames)
    return
  end
  local old_bytes = old_row and #old_row or 0
  local more = weight(#row) - weight(old_bytes)
  if not old_row then
    -- Redis has lost the message: only the row from the caller is left of it.
    local added = call('ZADD', ids, 0, message)
    local last = before.last
    local greatest = last and last > message and last or message
    call('HSET', session, 'messages', int(before.count + added), 'last', greatest)
    more = more + MESSAGE_BYTES
  end
  call('HSET', messages, message, row)
  local counted = math.max(0, before.counted + more - number(ending.counted))
  call('HSET', session, 'updated_at', ending.seconds, 'bytes', int(before.bytes + #row - old_bytes),
    'counted', int(counted), 'ends', int(before.ends + 1))
  call('HSET', storage, 'sessions', int(stored.sessions + counted - before.counted), 'frames', frames)
  if before.active == message then call('HDEL', session, 'active') end
  keep(session, { ids, messages }, tonumber(ending.retention), storage, before.id, counted)
end

