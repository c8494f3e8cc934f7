-- Purpose: what an account, or one of its keys, has spent of a budget: the windows of budgets in the account's row, and
-- the names of the windows in a hold's. budgets.lua has what a request may spend, budget_charges.lua what a charge
-- takes.
--
-- The row of an account or a key has its budget as `<tokens> <every>`; '' once it was taken away. The newest window
-- is a field of the account's row: `window` for the account's budget, `window:<key id>:<every>` for a key's. It is
-- `<every> <since> <end> <used>`. `since` is when the first request of the window came; it names the window. `used` is
-- the sum of the charges and open holds in it.
-- What a hold gets counts in the windows that run when it gets it, even if its request ends later. If it is extended in a
-- later window, its row names that one. The entry of its charge names the windows in which the charge counts. Row and
-- entry use five words each, the first two for the account's budget, the others for the key's; `-` = no window:
-- `<since> <tokens> <since> <tokens> <key id>:<every>`
-- The row of a hold has them in its meta, as `"held":"…"`. There, `tokens` is the part of the hold that does not count in
-- the window, because the hold had it before; all others count in it. The entry of a charge has them as
-- `budget`. There, `tokens` are what the charge counts in the window; a correction that gives tokens back has a number
-- below 0.

local OF_ACCOUNT = 'window'
local OF_KEY = 'window:'
local NO_COUNTS = '- 0 - 0 -'

-- Reads the five words, or returns nil. Both parts, `account` and `key`, have the field of their window, `since` (nil =
-- no window) and `tokens`.
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

local function read_window(account, field)
  account.windows = account.windows or {}
  local window = account.windows[field]
  if window ~= nil then return window end
  local text = call('HGET', account_key, field) or ''
  local every, since, ends, used = match(text, '^(%a+) (%d+) (%d+) (%d+)$')
  window = every and { every = every, since = number(since), ends = number(ends), used = number(used) }
  account.windows[field] = window or false
  return account.windows[field]
end

-- Adds the windows that have changed to a list of fields with their values.
local function add_windows(account, fields)
  if not account.windows then return end
  for field, window in pairs(account.windows) do
    if window and window.is_changed then
      add_field(fields, field, window.every .. format(' %d %d %d', window.since, window.ends, window.used))
    end
  end
end

-- The field of the window of a key's budget; nil when the key has none. A key that replaces another one counts with it
-- (`budget_of`), unless their budgets are for windows of different length.
local function field_of(key)
  local every = match(key.budget or '', ' (%a+)$')
  return every and OF_KEY .. (key.budget_of or key.id) .. ':' .. every
end

-- Reads the five words of a hold's text, or returns nil. The gateway writes meta as JSON, so a text of a client cannot
-- contain these quotes unescaped.
local function read_hold_windows(text)
  -- Most holds have none, and a plain search is much faster than a pattern.
  if not string.find(text, '"held":"', 1, true) then return nil end
  return read_counts(match(text, '"held":"([^"]*)"'))
end

local function without_hold_windows(tail)
  return (string.gsub(tail, ',"held":"[^"]*"', '', 1))
end
