-- Purpose: budgets: what an account, or one of its keys, may spend in a day, a week or a month. Stands after the prelude.
-- A function named read_, find_ or book_ writes nothing: all checks precede all writes.
--
-- The row of an account or a key has its budget as `<tokens> <every>`; '' once it was taken away. The window that runs is
-- a field of the account's row: `window` for the account's budget, `window:<key id>:<every>` for a key's. It is
-- `<every> <since> <end> <used>`. `since` is when the first request of the window came; it names the window. `used` is
-- the sum of the charges and open holds in it.
-- What a hold gets counts in the windows that run at that time, also if its request ends after them. A hold that is
-- extended may count in one window after the other: its row names the newest. Its charge names the windows in which
-- the charge counts. Both do so in five words, the first two for the account's budget, the others for the key's;
-- `-` = no window:
-- `<since> <tokens> <since> <tokens> <key id>:<every>`
-- The row of a hold has them in its meta, as `"held":"…"`. There, all tokens of the hold count in the named window, except
-- `tokens`, which the hold had before it began to count in that window. The entry of a charge has them as `budget`. There,
-- `tokens` are what the charge counts in the window; a correction that gives tokens back has a number below 0.

local OF_ACCOUNT = 'window'
local OF_KEY = 'window:'
local NO_COUNTS = '- 0 - 0 -'

-- Reads the five words, or returns nil. Both parts, `account` and `key`, have the field of their window, `since` (nil = no
-- window) and `tokens`.
local function read_counts(text)
  if not text then return nil end
  local since, tokens, key_since, key_tokens, counter =
    match(text, '^(%S+) (%d+) (%S+) (%d+) (%S+)$')
  if not since then return nil end
  return {
    account = { field = OF_ACCOUNT, since = tonumber(since), tokens = number(tokens) },
    key = { field = OF_KEY .. counter, since = tonumber(key_since), tokens = number(key_tokens) },
  }
end

local function counts_text(counts)
  local account, key = counts.account, counts.key
  return format('%s %d %s %d %s', account.since and int(account.since) or '-', account.tokens,
    key.since and int(key.since) or '-', key.tokens, string.sub(key.field, #OF_KEY + 1))
end

local NO_BUDGETS = { all = {}, left = math.huge }

local function read_window(account, field)
  account.windows = account.windows or {}
  local window = account.windows[field]
  if window ~= nil then return window end
  local text = account.window_text
  if field ~= OF_ACCOUNT then text = call('HGET', account_key, field) end
  local every, since, ends, used = match(text or '', '^(%a+) (%d+) (%d+) (%d+)$')
  window = every and { every = every, since = number(since), ends = number(ends), used = number(used) }
  account.windows[field] = window or false
  return account.windows[field]
end

-- Returns the budget with what is left of it, or nil if there is none. The second value is true if Redis' time is not in
-- the window of that length that the gateway has sent.
local function find_budget(account, text, field, windows, now)
  local tokens, every = match(text or '', '^(%d+) (%a+)$')
  if not tokens then return nil, false end
  local window = read_window(account, field)
  if not window or window.every ~= every or now >= window.ends then
    local start, ends = window_now(windows, every, now)
    if not start then return nil, true end
    -- A window that began before the last one's end is of another time zone. Then the last window goes on until the end
    -- of this one, so that a budget is not renewed twice.
    local goes_on = window and window.every == every and start < window.ends
    window = {
      every = every, ends = ends, used = goes_on and window.used or 0,
      -- `since` names the window, so a new window never has the `since` of the last one.
      since = goes_on and window.since or math.max(now, window and window.since + 1 or 0),
    }
  end
  return { field = field, window = window, left = math.max(0, number(tokens) - window.used) }, false
end

-- The field of the window of a key's budget; nil when the key has none. A key that replaces another one counts with it
-- (`budget_of`), unless their budgets are for windows of different length.
local function field_of(key)
  local every = match(key.budget or '', ' (%a+)$')
  return every and OF_KEY .. (key.budget_of or key.id) .. ':' .. every
end

-- The budgets of an account and of one of its keys: `all` has those that there are; nil when the gateway has to send the
-- windows again.
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

-- The same for a hold that grows. The operator may have taken a budget away since the hold was made: its window, if it still
-- runs, counts the growth all the same.
local function take_more(account, budgets, hold_windows, amount)
  take_budgets(account, budgets, amount)
  for _, who in ipairs(hold_windows and { 'account', 'key' } or {}) do
    local part = hold_windows[who]
    local window = part.since and not budgets[who] and read_window(account, part.field)
    if window and window.since == part.since then
      window.used, window.is_changed = math.min(MAX_AMOUNT, window.used + amount), true
    end
  end
end

-- Reads the five words of a hold's text, or returns nil. The gateway writes meta as JSON, so a text of a client cannot contain
-- these quotes unescaped.
local function read_hold_windows(text)
  return read_counts(match(text, '"held":"([^"]*)"'))
end

local function without_hold_windows(tail)
  return (string.gsub(tail, ',"held":"[^"]*"', '', 1))
end

-- Returns the text of a hold with the names of the windows that it counts in now. What it has had until now (`held`) stays in
-- the window in which it was counted. `hold_windows` is what was read of its text, and is changed; nil when it has none.
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

-- For a charge whose hold is gone, because Redis forgot or reaped it: returns what `read_counts` returns for a hold, with
-- the windows that run now. Returns nil if neither the account nor the key has a budget.
local function running_windows(account, key)
  if not account.budget and not key.budget then return nil end
  local running = read_counts(NO_COUNTS)
  running.key.field = field_of(key) or running.key.field
  local of_account = account.budget and account.budget ~= '' and read_window(account, OF_ACCOUNT)
  local of_key = field_of(key) and read_window(account, running.key.field)
  running.account.since, running.key.since = of_account and of_account.since, of_key and of_key.since
  return running
end

-- Books the end of a hold in the window that runs. If this is the hold's own, takes out what the hold counted in it, and
-- adds what is due; of both, the first `part.tokens` do not count in it. If the hold's own has ended, the window that runs
-- counts only what is due beyond the hold. Returns this part of the charge's counts.
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

-- A correction that takes back some of a charge gives it back to the window that it was counted in, if that still runs.
local function book_back(account, part, back)
  local given = 0
  local window = part.since and read_window(account, part.field)
  if window and window.since == part.since then
    given = math.min(part.tokens, back, window.used)
    window.used, window.is_changed = window.used - given, true
  end
  return { field = part.field, since = part.since, tokens = -given }
end

-- The field that keeps what the reapings of a hold have counted in windows. It stands beside the hold's mark, as the
-- waived_field does.
local function counted_field(hold_id)
  return hold_id .. ':counted'
end

-- What a charge counts in windows, as the journal has it; nil if that is nothing.
local function counted_text(counts)
  if not counts or (counts.account.tokens == 0 and counts.key.tokens == 0) then return nil end
  return counts_text(counts)
end

-- Books that a hold of `held` tokens has ended, and was charged `due`. `counted` is what reapings of the same hold have
-- counted; returns it with what this charge counts.
local function book_budgets(account, charge, hold_windows, held, due, counted)
  local counts = hold_windows and {
    account = book_in(account, hold_windows.account, held, due),
    key = book_in(account, hold_windows.key, held, due),
  }
  local before = read_counts(counted)
  -- Only a settlement takes back, and a settlement does not need the sum.
  if due < 0 and before then
    charge.counted = counted_text({
      account = book_back(account, before.account, -due), key = book_back(account, before.key, -due),
    })
    return counted
  end
  charge.counted = counted_text(counts)
  if not charge.counted or not before then return charge.counted or counted end
  -- A correction gives back only to a window that still runs. So each part has the newest window in which the reapings or
  -- this charge counted something, and the sum in it.
  for _, who in ipairs({ 'account', 'key' }) do
    local part, old = counts[who], before[who]
    if part.tokens == 0 then counts[who] = old
    elseif part.since == old.since and part.field == old.field then part.tokens = part.tokens + old.tokens end
  end
  return counted_text(counts)
end
