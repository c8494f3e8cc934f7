-- Purpose: what a charge takes of budgets, and what a hold gives back to them when it ends. Stands after windows. A
-- function named book_ writes nothing: all checks precede all writes.

-- Books the end of a hold in the newest window of a budget. `part` is what the hold's text says of this budget. If the
-- newest window is the one that the hold names, the hold's tokens in it (`held` - `part.tokens`) are replaced by the
-- charge's (`due` - `part.tokens`); neither counts below 0. If the newest window is a later one, it gets only what the
-- charge is above the hold (`due` - `held`). Returns what the charge counts in the newest window.
local function book_in(account, part, held, due)
  local field = part.field
  local window = part.since and read_window(account, field)
  if not window then return { field = field, tokens = 0 } end
  local counted, freed = math.max(0, due - held), 0
  if window.since == part.since then
    counted, freed = math.max(0, due - part.tokens), math.max(0, held - part.tokens)
  end
  if counted ~= freed then
    window.used = math.min(MAX_AMOUNT, math.max(0, window.used - freed + counted))
    window.is_changed = true
  end
  return { field = field, since = window.since, tokens = counted }
end

-- A correction that takes back some of a charge gives it back to the window that it was counted in, if that is still
-- the newest one.
local function book_back(account, part, back)
  local given = 0
  local window = part.since and read_window(account, part.field)
  if window and window.since == part.since then
    given = math.min(part.tokens, back, window.used)
    window.used, window.is_changed = window.used - given, true
  end
  return { field = part.field, since = part.since, tokens = -given }
end

-- What a charge counts in windows, as the journal has it; nil if that is nothing.
local function counted_text(counts)
  if not counts or (counts.account.tokens == 0 and counts.key.tokens == 0) then return nil end
  return counts_text(counts)
end

-- Books in the budgets that a hold of `held` tokens has ended and was charged `due`. `counted` is the text of what
-- reapings of the same hold have counted. Returns `counted` with this charge's counts added; if `due` is below 0, returns
-- `counted` as it was.
local function book_budgets(account, charge, hold_windows, held, due, counted)
  local counts = hold_windows and {
    account = book_in(account, hold_windows.account, held, due),
    key = book_in(account, hold_windows.key, held, due),
  }
  local before = read_counts(counted)
  -- Only a settlement can have `due` below 0, and settle.lua does not use what this function returns.
  if due < 0 and before then
    charge.counted = counted_text({
      account = book_back(account, before.account, -due), key = book_back(account, before.key, -due),
    })
    return counted
  end
  charge.counted = counted_text(counts)
  if not charge.counted or not before then return charge.counted or counted end
  -- A correction gives back only to the newest window. So of each part one window is kept: this charge's, if it counted
  -- anything, with what the reapings counted in the same one; else that of the reapings.
  for _, who in ipairs({ 'account', 'key' }) do
    local part, old = counts[who], before[who]
    if part.tokens == 0 then counts[who] = old
    elseif part.since == old.since and part.field == old.field then part.tokens = part.tokens + old.tokens end
  end
  return counted_text(counts)
end
