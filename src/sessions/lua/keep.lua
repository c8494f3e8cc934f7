-- Purpose: how long the keys of a session outlive its last change; stands before the scripts that change one.

-- 0 keeps them for ever, also those that were written when it was not 0.
local function keep(keys, retention_ms)
  for _, key in ipairs(keys) do
    if retention_ms > 0 then
      call('PEXPIRE', key, retention_ms)
    else
      call('PERSIST', key)
    end
  end
end

