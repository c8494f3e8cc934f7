-- Purpose: how long the keys of a session outlive its last change; stands before the scripts that change one.

-- 0 keeps them for ever, also those that were written when it was not 0. Of a session that may expire, the account's
-- storage knows how much it counts: Redis does not tell when it does.
local function keep(session, others, retention_s, storage, id, counted)
  if retention_s > 0 then
    call('EXPIRE', session, retention_s)
    for _, key in ipairs(others) do
      call('EXPIRE', key, retention_s)
    end
    call('HSET', storage, id, int(counted))
  elseif call('PERSIST', session) == 1 then
    for _, key in ipairs(others) do
      call('PERSIST', key)
    end
    call('HDEL', storage, id)
  end
end

