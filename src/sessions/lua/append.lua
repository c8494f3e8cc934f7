-- Purpose: appends frames to the streams of messages of one account, to each in order; only the owner of a message may.
-- The reply tells the owner of a cancel. Of a call that fails, some streams may have their frames: another call, with the
-- same words, changes nothing there.
-- KEYS: storage; then for each stream 4: stream + frames + session + messages
-- ARGV: 1… for each stream 4: `<hold> <seq of the first frame> <how many> <most bytes to keep>
--       <1 = replaces the frames in Redis> <1 = the message will not be withdrawn any more; not stored if this call adds
--       frames, because these say it, too>` + the frames + snapshot of what all frames so far have said, or '' + message id
-- Reply: ok, now, and for each stream two values: `ok` and 1 = cancelled; `behind` and the seq of the frame that Redis needs
--       next; `lost` and 0 if the message has another owner, or has ended; `forgotten` and 0 if Redis has neither stream nor
--       session

local storage = KEYS[1]

local now = now_ms()

local function append(stream, frames, session, messages, head, text, said, message)
  local hold, first, count, most, replaces, open = match(head, '^(%S+) (%d+) (%d+) (%d+) (%d) (%d)$')
  first, count, most = number(first), number(count), number(most)
  replaces = replaces == '1'
  local after = first + count

  local found = call('HMGET', stream, 'hold', 'ended', 'next', 'bytes', 'cancelled', 'said_next',
    'counted')
  local owner, ended, next_seq, bytes, cancelled, said_next, counted = unpack(found)
  next_seq, bytes, said_next, counted = number(next_seq), number(bytes), number(said_next), number(counted)
  if not owner then
    local word = why_gone(session, messages, message)
    if word then return word, 0 end
    if first > 0 and not replaces then return 'behind', 0 end
    begin_anew(stream, frames, session, hold)
    owner = hold
  end
  if owner ~= hold or ended then return 'lost', 0 end
  local is_stored = next_seq >= after
  local follows = next_seq == first or replaces
  if not is_stored and not follows then return 'behind', next_seq end

  if count == 0 or is_stored then
    call('HSET', stream, 'touched', int(now), 'open', open)
    return 'ok', number(cancelled)
  end
  if replaces then
    call('DEL', frames)
    bytes = 0
  end
  local is_new_key = bytes == 0
  call('XADD', frames, int(after) .. '-0', 'f', text)
  -- Where sessions expire, the frames get the TTL of the stream: else those of an owner that dies might stay for ever.
  if is_new_key then expire_in(frames, call('PTTL', stream)) end
  bytes = bytes + #text
  local changes = { 'touched', int(now), 'next', int(after) }
  local function change(field, value)
    changes[#changes + 1] = field
    changes[#changes + 1] = value
  end
  if said ~= '' then
    said_next = after
    change('said', said)
    change('said_next', int(after))
  end
  -- Drops the oldest batches of frames, except the newest one and those whose words no snapshot (`said`) has. A batch has
  -- the seq after its last frame as its id.
  while bytes > most do
    local oldest = call('XRANGE', frames, '-', '+', 'COUNT', 1)[1]
    local oldest_id, oldest_text = oldest[1], oldest[2][2]
    local oldest_next = number(match(oldest_id, '^%d+'))
    local is_unsaid, is_newest = oldest_next > said_next, oldest_next == after
    if is_unsaid or is_newest then break end
    call('XDEL', frames, oldest_id)
    bytes = bytes - #oldest_text
  end
  -- A deleted session counts nothing any more; the frames of its answer are counted when the answer ends.
  local taken = STREAM_BYTES + weight(bytes + #said)
  if taken > counted and call('HEXISTS', session, 'id') == 1 then
    local more = math.ceil((taken - counted) / RUNNING_BYTES) * RUNNING_BYTES
    call('HINCRBY', session, 'counted', int(more))
    call('HINCRBY', storage, 'sessions', int(more))
    recount(session, storage)
    change('counted', int(counted + more))
  end
  call('HSET', stream, 'bytes', int(bytes), unpack(changes))
  return 'ok', number(cancelled)
end

local reply = { 'ok', now }
for one = 0, #ARGV / 4 - 1 do
  local key, arg = 4 * one + 1, 4 * one
  local word, value = append(KEYS[key + 1], KEYS[key + 2], KEYS[key + 3], KEYS[key + 4],
    ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3], ARGV[arg + 4])
  reply[#reply + 1] = word
  reply[#reply + 1] = value
end
return reply
