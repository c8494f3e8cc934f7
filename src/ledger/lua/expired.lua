-- Purpose: tells whether an account has expired holds, so that reap.lua has to be called first.

-- While Redis has run for less than a lease, no hold is reaped: its gateway had no chance to renew the lease.
local function has_expired(now, lease)
  return #call('ZRANGEBYSCORE', hold_leases, '-inf', int(now), 'LIMIT', 0, 1) > 0 and uptime_ms() >= lease
end
