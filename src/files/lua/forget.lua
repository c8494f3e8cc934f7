-- Purpose: an upload whose object is not there, or no more, has reserved nothing.
-- KEYS: storage, due
-- ARGV: 1 file id; 2 what stands for it in due
-- Reply: ok, now

local storage, due = KEYS[1], KEYS[2]
local id, member = ARGV[1], ARGV[2]

local own = call('HGET', storage, id)
if own then
  call('HDEL', storage, id)
  call('HINCRBY', storage, 'reserved', int(-number(own)))
end
call('ZREM', due, member)
return { 'ok', now_ms() }
