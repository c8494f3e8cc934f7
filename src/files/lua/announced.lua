-- Purpose: whether an account is announced among those with something due; stands before the scripts that add such.
-- A sweeper takes an announcement away only after it has closed that minute here, and closes only what covers nothing:
-- whatever is written later needs a later one, so nothing is ever due that no announcement stands for.

-- The minute to announce first, where the one that was does not do: it is closed, or a clock ahead made it.
local function unannounced(storage, minute, due_ms)
  local next_open = number(call('HGET', storage, 'closed')) + 1
  local due_minute = math.floor(due_ms / 60000)
  minute = number(minute)
  if minute >= next_open and minute <= math.max(next_open, due_minute + 1) then return nil end
  return int(math.max(next_open, due_minute))
end

