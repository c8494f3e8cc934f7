-- Purpose: what a charge takes of budgets, and what a hold gives back to them when it ends. Stands after windows. A
-- function named book_ writes nothing: all checks precede all writes.

-- Books the end of a hold in the newest window of a budget. `held` is what the hold had, `due` what is charged for it, and
-- `part` what the hold's text says of this budget; `part.tokens` had the hold before its window began. In the window that
-- the hold names, the hold's tokens (`held` - `part.tokens`) are replaced by the charge's (`due` - `part.tokens`): a hold of
-- 100, of which 30 are older than the window, counted 70 in it, and with a charge of 80 it counts 50. A later window
-- gets only what the charge is above the hold (`due` - `held`). Nothing counts below 0. Returns what the charge counts in
-- the newest window.
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

-- Books in the budgets that a hold of `held` tokens has ended and was charged `due`. `of_reapings` is the text of what
-- reapings of the same hold have counted. Returns that text with this charge's counts added; if `due` is below 0, returns
-- it as it was.
local function book_budgets(account, charge, hold_windows, held, due, of_reapings)
  local counts = hold_windows and {
    account = book_in(account, hold_windows.account, held, due),
    key = book_in(account, hold_windows.key, held, due),
  }
  local reaped = read_counts(of_reapings)
  -- Only a settlement can have `due` below 0, and settle.lua does not use what this function returns.
  if due < 0 and reaped then
    charge.counted = counted_text({
      account = book_back(account, reaped.account, -due), key = book_back(account, reaped.key, -due),
    })
    return of_reapings
  end
  charge.counted = counted_text(counts)
  if not charge.counted then return of_reapings end
  if not reaped then return charge.counted end
  -- A correction gives back only to the newest window, so the text has one window for each budget.
  for _, who in ipairs({ 'account', 'key' }) do
    local part, old = counts[who], reaped[who]
    if part.tokens == 0 then
      -- This charge counted nothing: the window of the reapings stays.
      counts[who] = old
    elseif part.since == old.since and part.field == old.field then
      -- Both counted in the same window.
      part.tokens = part.tokens + old.tokens
    end
  end
  return counted_text(counts)
end
