-- Purpose: gives back what an upload had reserved, once its object is not there.
-- KEYS: storage, due
-- ARGV: 1 file id; 2 its member in due; 3 ms until its object is looked for once more (0: never)
-- Reply: ok, now

local storage, due = KEYS[1], KEYS[2]
local id, member, again_ms = ARGV[1], ARGV[2], number(ARGV[3])

local now = now_ms()
local own = call('HGET', storage, id)
if own then
  call('HDEL', storage, id)
  call('HINCRBY', storage, 'reserved', int(-number(own)))
end
if call('ZREM', due, member) == 1 and again_ms > 0 then
  call('ZADD', due, int(now + again_ms), 'object ' .. id .. ' 0')
end
return { 'ok', now }
