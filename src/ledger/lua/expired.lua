-- Purpose: tells whether an account has expired holds, so that reap.lua has to be called first.

-- While Redis has run for less than a lease, no hold is reaped: its gateway had no chance to renew the lease. `lease`
-- is in ms, as text.
local function has_expired(now, lease)
  return call('ZCOUNT', hold_leases, '-inf', int(now)) > 0 and uptime_ms() >= tonumber(lease)
end
