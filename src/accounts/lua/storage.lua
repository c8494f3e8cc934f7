-- Purpose: what an account has stored, kept in one row, and whether more fits; stands before the scripts that store.
-- The row has `used` (bytes of files), `rows` (the sum of `row` of all its files), `reserved` (what uploads need, their rows
-- with it), `sessions` (the sum of `counted` of all its sessions), and three windows, `frames`, `claims` and `told`: what
-- Redis removes by itself, at a time that nobody is told of.

local SESSION_BYTES = 1024
local MESSAGE_BYTES = 512
local STREAM_BYTES = 1024
-- An answer in progress counts this much before its frames come, and grows by as much.
local RUNNING_BYTES = 65536
local CLAIM_BYTES = 320
-- With the longest name.
local FILE_BYTES = 2048
-- That a file has expired.
local TOLD_BYTES = 320
local CLAIM_MS = 86400000

-- What Redis takes for texts of so many bytes: its allocator wastes up to a quarter.
local function weight(bytes)
  return bytes + math.ceil(bytes / 4)
end

-- A window is `<turn, ms> <kept, ms> <since> <before>`: bytes added since the last turn, and in the period before it.
-- What is added counts until it is gone, and at most for twice as long as it is kept.
local function read_window(text, now)
  local turn, kept, since, before = match(text or '', '^(%d+) (%d+) (%d+) (%d+)$')
  turn, kept, since, before = number(turn), number(kept), number(since), number(before)
  if now < turn then return { turn = turn, since = since, before = before, bytes = since + before } end
  if now < turn + kept then
    return { turn = turn + kept, since = 0, before = since, bytes = since }
  end
  return { since = 0, before = 0, bytes = 0 }
end

local function window_with(window, more, now, kept)
  return int(window.turn or now + kept) .. ' ' .. int(kept) .. ' '
    .. int(math.max(0, window.since + more)) .. ' ' .. int(window.before)
end

local function read_storage(storage, now)
  local found = call('HMGET', storage, 'sessions', 'frames', 'claims', 'told', 'used', 'reserved', 'rows')
  local sessions = number(found[1])
  local frames, claims = read_window(found[2], now), read_window(found[3], now)
  local told = read_window(found[4], now)
  local files = number(found[5]) + number(found[6]) + number(found[7])
  local bytes = files + sessions + frames.bytes + claims.bytes + told.bytes
  return { sessions = sessions, frames = frames, claims = claims, told = told, bytes = bytes }
end

-- Whether an account may have so many bytes: `quota` while there is money, `unpaid` without.
local function fits(account, bytes, quota, unpaid)
  if bytes <= math.min(quota, unpaid) then return true end
  if bytes > quota then return false end
  local granted, spent = unpack(call('HMGET', account, 'granted', 'spent'))
  return number(granted) > number(spent)
end

-- Of a session that may expire, the row says what it counts.
local function recount(session, storage)
  local id, counted = unpack(call('HMGET', session, 'id', 'counted'))
  if id and call('HEXISTS', storage, id) == 1 then call('HSET', storage, id, counted or '0') end
end

