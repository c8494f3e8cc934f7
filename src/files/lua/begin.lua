-- Purpose: writes an upload's record before anything is stored,
-- so that a sweeper finds what a dead upload leaves behind.
-- KEYS: session, storage, due
-- ARGV: 1 file id; 2 lease, ms; 3 minute that is announced
-- Reply: ok, now | session_not_found, now | lost, now: repeated after its lease had ended | announce, now, minute

local session, storage, due = KEYS[1], KEYS[2], KEYS[3]
local id, lease_ms, minute = ARGV[1], number(ARGV[2]), ARGV[3]

local now = now_ms()
if call('EXISTS', session) == 0 then return { 'session_not_found', now } end
local needed = unannounced(call('HGET', storage, 'closed'), minute, now + lease_ms)
if needed then return { 'announce', now, needed } end

local record = 'upload ' .. id
local is_new = call('HSETNX', storage, id, 0) == 1
local has_lease = is_new or call('ZSCORE', due, record)
if not has_lease then return { 'lost', now } end
call('ZADD', due, int(now + lease_ms), record)
return { 'ok', now }
