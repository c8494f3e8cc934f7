-- Purpose: writes an upload's record before anything is stored, so that a sweeper finds what a dead upload leaves behind;
-- counts what the upload needs.
-- KEYS: session, storage, due, account
-- ARGV: 1 file id; 2 `<bytes of the file in all> <quota> <quota without money>`; 3 lease, ms; 4 minute that is announced
-- Reply: ok, now | session_not_found, now | storage_quota_exceeded, now
--      | lost, now: repeated after its lease had ended | announce, now, minute

local session, storage, due, account = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, words, lease_ms, minute = ARGV[1], ARGV[2], number(ARGV[3]), ARGV[4]
local record = 'upload ' .. id

local now = now_ms()
if call('EXISTS', session) == 0 then return { 'session_not_found', now } end
local stored, own, closed = read_storage(storage, now, id, 'closed')
local needed = minute_to_announce(closed, minute, now + lease_ms)
if needed then return { 'announce', now, needed } end
local has_lease = not own or call('ZSCORE', due, record)
if not has_lease then return { 'lost', now } end
if not reserve(storage, account, stored, own, id, words) then
  return { 'storage_quota_exceeded', now }
end
call('ZADD', due, int(now + lease_ms), record)
return { 'ok', now }
