-- Purpose: removes a file's row, frees its bytes at once, and queues its object.
-- KEYS: files, session's files, storage, due, file
-- ARGV: 1 file id; 2 minute that is announced; 3 when a sweeper looks, ms from now
-- Reply: ok, now | gone, now: there is none, or it has expired | announce, now, minute

local files, session_files, storage, due, file = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, minute, wait_ms = ARGV[1], ARGV[2], number(ARGV[3])

local now = now_ms()
local bytes, row = unpack(call('HMGET', file, 'bytes', 'row'))
local needed = bytes and minute_to_announce(call('HGET', storage, 'closed'), minute, now + wait_ms)
if needed then return { 'announce', now, needed } end

-- Also without a row, because ids may be left in the sets.
take_away(files, session_files, storage, due, id, bytes, row, now + wait_ms)
if not bytes then return { 'gone', now } end
call('UNLINK', file)
return { 'ok', now }
