-- Purpose: finds the holds of an account whose lease has ended, so that reap.lua has to be called first.
--
-- To look at all rows takes a microsecond for each. So `next_expiry` of the account says how long no lease can end, and
-- only a call that comes later looks: about one in the time of a lease.

local ROWS_AT_ONCE = 500

-- Returns at most `most` holds as { id, row }. If none has expired, it notes when to look again, and how many are open, unless
-- none is and the account says so; by pcall, so that the script goes on when Redis' memory is full. While Redis has run for
-- less than a lease, no hold is reaped: its gateway had no chance to renew the lease. `lease` is in ms, as text.
local function find_expired(account, now, lease, most)
  local found, open, cursor = {}, 0, '0'
  if now < account.next_expiry then return found end
  local next_expiry = math.huge
  repeat
    local page = call('HSCAN', hold_rows, cursor, 'COUNT', ROWS_AT_ONCE)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local id, row = page[2][i], page[2][i + 1]
      local deadline = deadline_of(row)
      if deadline then open = open + 1 else deadline = number(call('ZSCORE', old_leases(), id)) end
      if deadline > now then
        next_expiry = math.min(next_expiry, deadline)
      elseif #found < most then
        found[#found + 1] = { id, row }
      end
    end
  until cursor == '0' or #found == most
  if #found > 0 then
    local missing = tonumber(lease) - uptime_ms()
    if missing <= 0 then return found end
    next_expiry, open = now + missing, math.max(open, account.open)
  end
  local is_right = next_expiry == math.huge and account.open == 0
  account.next_expiry, account.open = next_expiry, open
  if is_right then return {} end
  -- Where no hold is open, the next call looks, too.
  local noted = next_expiry < math.huge and next_expiry or now
  redis.pcall('HSET', account_key, 'next_expiry', int(noted), 'open', int(open))
  return {}
end

local function has_expired(account, now, lease)
  return #find_expired(account, now, lease, 1) > 0
end
