-- Purpose: how long the keys of a session outlive its last change; stands before the scripts that change one.

-- A retention of 0 keeps the keys for ever, also keys that were written under another retention. For a session that may
-- expire, the row of the account's storage notes what the session counts, because Redis does not tell when it expires.
local function keep(session, others, retention_s, storage, id, counted)
  if retention_s > 0 then
    call('EXPIRE', session, retention_s)
    for _, key in ipairs(others) do
      call('EXPIRE', key, retention_s)
    end
    call('HSET', storage, id, int(counted))
  -- Answers 1 only for a key that had an expiry.
  elseif call('PERSIST', session) == 1 then
    for _, key in ipairs(others) do
      call('PERSIST', key)
    end
    call('HDEL', storage, id)
  end
end

