-- Purpose: a stream that Redis has forgotten while it is generated; stands before the scripts of its owner.

-- 'forgotten' where its session has gone, too; 'lost' where others have ended it, and its frames are no longer kept; nothing
-- where its owner may begin it anew.
local function why_gone(session, messages, message)
  if call('HEXISTS', session, 'id') == 0 then return 'forgotten' end
  local row = call('HGET', messages, message)
  -- Within a value the quotes would have backslashes.
  if row and not string.find(row, '"status":"in_progress"', 1, true) then return 'lost' end
end

-- It goes with its session, like the one that was forgotten. Frames that are left of that one would be there twice.
local function begin_anew(stream, frames, session, hold)
  call('DEL', frames)
  call('HSET', stream, 'hold', hold)
  local left_ms = call('PTTL', session)
  if left_ms > 0 then call('PEXPIRE', stream, int(left_ms)) end
end

