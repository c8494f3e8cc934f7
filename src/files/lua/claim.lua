-- Purpose: takes what is due, so that one of several sweepers does it; what is not done becomes due again, a deletion
-- after a longer wait each time. An upload whose lease has ended can't go on: its record becomes `abandoned`.
-- KEYS: due
-- ARGV: 1 how many at most; 2 how long they are taken for, ms; 3 the longest wait of one that fails, ms
-- Reply: ok, now, what is taken, as it stands in due…

local due = KEYS[1]
local count, taken_ms, most_ms = ARGV[1], number(ARGV[2]), number(ARGV[3])

local now = now_ms()
local reply = { 'ok', now }
for _, member in ipairs(call('ZRANGE', due, '-inf', int(now), 'BYSCORE', 'LIMIT', 0, count)) do
  local kind, id, tries = match(member, '^(%l+) (%S+) ?(%d*)$')
  local taken, wait_ms = member, taken_ms
  if kind == 'upload' then taken = 'abandoned ' .. id .. ' 1' end
  local is_deletion = kind == 'object' or kind == 'abandoned'
  if is_deletion then
    tries = number(tries) + 1
    taken = kind .. ' ' .. id .. ' ' .. int(tries)
    wait_ms = math.min(taken_ms * 2 ^ (tries - 1), most_ms)
  end
  call('ZREM', due, member)
  -- A member of an unknown kind is removed, and not taken.
  if kind then
    call('ZADD', due, int(now + wait_ms), taken)
    reply[#reply + 1] = taken
  end
end
return reply
