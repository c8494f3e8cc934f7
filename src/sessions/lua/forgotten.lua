-- Purpose: for a stream that Redis has lost while its message is generated; stands before the scripts of the owner.

local function has_status(row, status)
  -- This text cannot stand within a value: there, its quotes would have backslashes.
  return row and string.find(row, '"status":"' .. status .. '"', 1, true)
end

-- Returns 'forgotten' when the session is gone too; 'lost' when the message has ended and its frames are no longer
-- kept; nothing when the owner may begin the stream again.
local function why_gone(session, messages, message)
  if call('HEXISTS', session, 'id') == 0 then return 'forgotten' end
  local row = call('HGET', messages, message)
  if row and not has_status(row, 'in_progress') then return 'lost' end
end

-- The new stream expires with its session, as the lost stream did. Frames that are left of the lost stream are deleted,
-- because the owner sends them again.
local function begin_anew(stream, frames, session, hold)
  call('DEL', frames)
  call('HSET', stream, 'hold', hold)
  local left_ms = call('PTTL', session)
  if left_ms > 0 then call('PEXPIRE', stream, int(left_ms)) end
end

