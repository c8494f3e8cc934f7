-- Purpose: how long the keys of a session outlive its last change; stands before the scripts that change one.

-- 0 keeps them for ever, also those that were written when it was not 0.
local function keep(keys, retention_s)
  for _, key in ipairs(keys) do
    if retention_s > 0 then
      call('EXPIRE', key, retention_s)
    else
      call('PERSIST', key)
    end
  end
end

