-- Purpose: what begin and reserve share: counts all that an upload needs before its bytes are stored, so parallel uploads
-- never exceed the quota.

-- Notes what an upload needs for so many bytes, with its row; fewer than before change nothing. `own` is what it has
-- reserved so far, false for a new upload. Returns false, and writes nothing, if that does not fit.
local function reserve(storage, account, stored, own, id, words)
  local bytes, quota, unpaid = match(words, '^(%d+) (%d+) (%d+)$')
  local before = number(own)
  local needed = number(bytes) > 0 and math.max(before, number(bytes) + FILE_BYTES) or before
  local more = needed - before
  if more > 0 and not fits(account, stored.bytes + more, number(quota), number(unpaid)) then
    return false
  end
  if more > 0 or not own then
    call('HSET', storage, id, int(needed), 'reserved', int(stored.reserved + more))
  end
  return true
end

