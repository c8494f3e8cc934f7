-- Purpose: tells whether an account is announced to the sweepers for what becomes due; stands before the scripts that
-- add something new to `due`. A script that only moves or replaces a member needs no announcement: as long as `due` has a
-- member, close.lua keeps the account announced.
-- Before a sweeper removes the announcement of a minute, it closes the minutes up to it (close.lua). A script
-- that adds something to `due` later then needs the announcement of a later minute. So nothing is due without an
-- announcement.

-- `closed` is the field of this name of the storage row: the last minute that a sweeper has closed.
-- Returns the minute to announce when the announced one is not valid (closed, or from a clock that is ahead), else nil.
local function unannounced(closed, announced, due_ms)
  local next_open = number(closed) + 1
  local due_minute = math.floor(due_ms / 60000)
  local is_open = number(announced) >= next_open
  local is_ahead = number(announced) > math.max(next_open, due_minute + 1)
  if is_open and not is_ahead then return nil end
  return int(math.max(next_open, due_minute))
end

