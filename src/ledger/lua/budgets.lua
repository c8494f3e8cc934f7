-- Purpose: budgets: what an account, or one of its keys, may spend in a day, a week or a month. Stands after calendar
-- and windows. A function named find_ writes nothing: all checks precede all writes.

local NO_BUDGETS = { all = {}, left = math.huge }

-- Returns the budget with what is left of it, or nil if there is none. The second value is true if Redis' time is not
-- in the window of that length that the gateway has sent.
local function find_budget(account, text, field, windows, now)
  local tokens, every = match(text or '', '^(%d+) (%a+)$')
  if not tokens then return nil, false end
  local window = read_window(account, field)
  if not window or window.every ~= every or now >= window.ends then
    local start, ends = window_now(windows, every, now)
    if not start then return nil, true end
    -- If the calendar's window begins before the stored one ends, the time zone was changed. Then the stored window goes on
    -- until the calendar's one ends, so that a budget is not renewed twice.
    local goes_on = window and window.every == every and start < window.ends
    window = {
      every = every, ends = ends, used = goes_on and window.used or 0,
      -- `since` names the window, so a new window never has the `since` of the last one.
      since = goes_on and window.since or math.max(now, window and window.since + 1 or 0),
    }
  end
  return { field = field, window = window, left = math.max(0, number(tokens) - window.used) }, false
end

-- The budgets of an account and of one of its keys: `all` lists those that exist. Returns nil when the gateway has to
-- send the windows again.
local function find_budgets(account, key, windows, now)
  if not account.budget and not key.budget then return NO_BUDGETS end
  local budgets = { all = {}, left = math.huge }
  local function add(who, text, field)
    local budget, is_outside = find_budget(account, text, field, windows, now)
    if budget then
      budget.who = who
      budgets[who], budgets.all[#budgets.all + 1] = budget, budget
      budgets.left = math.min(budgets.left, budget.left)
    end
    return not is_outside
  end
  local is_sound = add('account', account.budget, OF_ACCOUNT)
    and add('key', key.budget, field_of(key))
  return is_sound and budgets or nil
end

-- Adds `amount` to what is used of each budget. A window that has just begun becomes the one of the account's row.
local function take_budgets(account, budgets, amount)
  for _, budget in ipairs(budgets.all) do
    local window = budget.window
    window.used, window.is_changed = math.min(MAX_AMOUNT, window.used + amount), true
    account.windows[budget.field] = window
  end
end

-- Returns the text of a hold with the names of the windows in which the hold counts from now on. The tokens that it has
-- had until now (`held`) stay in the window in which they were counted. `hold_windows` is what read_hold_windows has read
-- of the text, or nil; this function changes it.
local function with_hold_windows(tail, budgets, hold_windows, held)
  if #budgets.all == 0 and not hold_windows then return tail end
  hold_windows = hold_windows or read_counts(NO_COUNTS)
  for _, who in ipairs({ 'account', 'key' }) do
    local part, budget = hold_windows[who], budgets[who]
    if budget and part.since ~= budget.window.since then
      part.field, part.since, part.tokens = budget.field, budget.window.since, held
    end
  end
  return string.sub(without_hold_windows(tail), 1, -2) .. ',"held":"' .. counts_text(hold_windows) .. '"}'
end
