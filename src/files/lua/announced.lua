-- Purpose: nothing is due without an announcement: an account is announced to the sweepers under a minute. Stands before
-- the scripts that add something new to `due`. A script that only moves or replaces a member needs no announcement: as
-- long as `due` has a member, close.lua keeps the account announced.
-- A sweeper closes a minute, and all minutes before it, before it removes the announcement of this minute (close.lua).
-- What is added to `due` after that needs the announcement of a later minute.

-- Returns nil when the announced minute is valid, else the minute that the gateway has to announce. A minute is not valid
-- if it is closed, or too late because a clock was ahead. `closed` is the storage row's field: the last closed minute.
local function minute_to_announce(closed, announced, due_ms)
  local next_open = number(closed) + 1
  local due_minute = math.floor(due_ms / 60000)
  local is_open = number(announced) >= next_open
  local is_ahead = number(announced) > math.max(next_open, due_minute + 1)
  if is_open and not is_ahead then return nil end
  return int(math.max(next_open, due_minute))
end

