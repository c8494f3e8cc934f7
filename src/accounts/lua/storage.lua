-- Purpose: keeps in one row what an account has stored, and says whether more fits. Stands before the scripts that
-- store. The row has `used` (bytes of files), `rows` (the sum of `row` of all its files), `reserved` (what uploads
-- need, with their rows), `sessions` (the sum of `counted` of all its sessions), and three rolling sums for data that
-- Redis removes by itself, without telling anybody when: `frames`, `claims` and `told` (tombstones of expired files). It
-- also has, by id, what each running upload has reserved, and what each session that may expire counts; and `closed`, the
-- last minute that a sweeper has closed (files/lua/close.lua).

local SESSION_BYTES = 1024
local MESSAGE_BYTES = 512
local STREAM_BYTES = 1024
-- An answer in progress counts this much before its first frame, and grows in steps of this much.
local RUNNING_BYTES = 65536
local CLAIM_BYTES = 320
-- A file's row with the longest name.
local FILE_BYTES = 2048
-- The tombstone of an expired file.
local TOLD_BYTES = 320
local CLAIM_MS = 86400000

-- The memory that Redis takes for texts of so many bytes: its allocator wastes up to a quarter.
local function weight(bytes)
  return bytes + math.ceil(bytes / 4)
end

-- A rolling sum is `<turn, ms> <kept, ms> <since> <before>`: its period ends at `turn`, `since` are the bytes added in
-- it, and `before` those of the period before. Added bytes count until Redis has removed them, and at most twice as long
-- as they are kept.
local function read_sum(text, now)
  local turn, kept, since, before = match(text or '', '^(%d+) (%d+) (%d+) (%d+)$')
  turn, kept, since, before = number(turn), number(kept), number(since), number(before)
  if now < turn then return { turn = turn, since = since, before = before, bytes = since + before } end
  -- The period has ended: its bytes are now those of the period before.
  if now < turn + kept then
    return { turn = turn + kept, since = 0, before = since, bytes = since }
  end
  return { since = 0, before = 0, bytes = 0 }
end

-- The text of a rolling sum to which `more` bytes are added; fewer when negative. A sum without a turn begins now.
local function sum_with(sum, more, now, kept)
  return int(sum.turn or now + kept) .. ' ' .. int(kept) .. ' '
    .. int(math.max(0, sum.since + more)) .. ' ' .. int(sum.before)
end

-- Returns also the values of further fields that the caller names; false where there is none.
local function read_storage(storage, now, ...)
  local found =
    call('HMGET', storage, 'sessions', 'frames', 'claims', 'told', 'used', 'reserved', 'rows', ...)
  local sessions, reserved = number(found[1]), number(found[6])
  local frames, claims = read_sum(found[2], now), read_sum(found[3], now)
  local told = read_sum(found[4], now)
  local files = number(found[5]) + reserved + number(found[7])
  local bytes = files + sessions + frames.bytes + claims.bytes + told.bytes
  return {
    sessions = sessions, frames = frames, claims = claims, told = told, reserved = reserved, bytes = bytes,
  }, unpack(found, 8)
end

-- Whether an account may store so many bytes: up to `quota`, and without money no more than `unpaid` either. An account
-- that is being deleted has room for nothing: nobody would delete what a request accepted earlier still stores.
local function fits(account, bytes, quota, unpaid)
  local closed_at, granted, spent = unpack(call('HMGET', account, 'closed_at', 'granted', 'spent'))
  if closed_at or bytes > quota then return false end
  return bytes <= unpaid or number(granted) > number(spent)
end

-- Notes in the row what a session counts. Only a session that may expire has a field there.
local function recount(session, storage)
  local id, counted = unpack(call('HMGET', session, 'id', 'counted'))
  if id and call('HEXISTS', storage, id) == 1 then call('HSET', storage, id, counted or '0') end
end

