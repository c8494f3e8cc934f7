-- Purpose: lets a sweeper remove the announcement of a minute: closes all minutes up to it, provided that nothing is due
-- by then, and that what is due next is announced under a later minute. After that, no script may add anything new to
-- `due` under a closed minute. Deletes the storage row of a deleted account for which nothing is due any more.
-- KEYS: storage, due, account
-- ARGV: 1 the minute; 2 a later one that is announced, or 0
-- Reply: ok, now | stays, now: something is due by that minute | announce, now, minute

local storage, due, account = KEYS[1], KEYS[2], KEYS[3]
local minute, announced = number(ARGV[1]), number(ARGV[2])

local now = now_ms()
local closed = number(call('HGET', storage, 'closed'))
local first_due_ms = call('ZRANGE', due, 0, 0, 'WITHSCORES')[2]
if first_due_ms then
  local first_minute = math.max(math.floor(number(first_due_ms) / 60000), closed + 1)
  if first_minute <= minute then return { 'stays', now } end
  if first_minute ~= announced then return { 'announce', now, int(first_minute) } end
end
if not first_due_ms and call('HEXISTS', account, 'deleted_at') == 1 then
  call('UNLINK', storage)
  return { 'ok', now }
end
if minute > closed then call('HSET', storage, 'closed', int(minute)) end
return { 'ok', now }
