-- Purpose: budgets: what an account, or one of its keys, may spend in a day, a week or a month. Stands after the prelude.
-- A function named read_, find_ or book_ writes nothing: all checks precede all writes.
--
-- The row of an account or a key has its budget as `<tokens> <every>`. The window that runs is a field of the account's row:
-- `window` for the account's budget, `window:<key id>:<every>` for a key's. It is `<every> <since> <end> <used>`. `since` is
-- when the first request of the window came; it names the window. `used` is the sum of the charges and open holds in it.
-- A request counts in the windows in which it was admitted, also if it ends after them. Its hold names them in its meta:
-- `"held":"<since> <base> <since> <base> <key id>:<every>"`, for the account and for the key, - = none. A hold that was made
-- in one window and extended in the next counts in both: its first `base` tokens count in the earlier one.

local OF_ACCOUNT = 'window'
local function field_of(counter)
  return OF_ACCOUNT .. ':' .. (counter or '')
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

-- Returns the budget with what is left of it, or nil if there is none. The second value is true if Redis' time lies in none
-- of the windows that the gateway has sent.
local function find_budget(account, text, field, windows, now)
  local tokens, every = match(text or '', '^(%d+) (%a+)$')
  if not tokens then return nil, false end
  local window = read_window(account, field)
  if not window or window.every ~= every or now >= window.ends then
    local start, ends = window_now(windows, every, now)
    if not start then return nil, true end
    -- A window that began before the last one's end is that of another time zone: the last one goes on to the end of it, so
    -- that a budget is not renewed twice.
    local goes_on = window and window.every == every and start < window.ends
    window = {
      every = every, ends = ends, used = goes_on and window.used or 0,
      -- No two windows have one name.
      since = goes_on and window.since or math.max(now, window and window.since + 1 or 0),
    }
  end
  return { field = field, window = window, left = math.max(0, number(tokens) - window.used) }, false
end

-- A key that replaces another one counts with it (`budget_of`), unless one of them goes by other windows now. Returns nil
-- when the key has no budget.
local function counter_of(key)
  local every = match(key.budget or '', ' (%a+)$')
  return every and (key.budget_of or key.id) .. ':' .. every
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
  budgets.counter = counter_of(key)
  local is_sound = add('account', account.budget, OF_ACCOUNT)
    and add('key', key.budget, field_of(budgets.counter))
  return is_sound and budgets or nil
end

-- Counts so many tokens more in the windows that run: they are then those of the account.
local function take_budgets(account, budgets, amount)
  for _, budget in ipairs(budgets.all) do
    local window = budget.window
    window.used, window.is_changed = math.min(MAX_AMOUNT, window.used + amount), true
    account.windows[budget.field] = window
  end
end

-- The same for a hold that grows. The operator may have taken a budget away since the hold was made: its window, if it still
-- runs, counts the growth all the same.
local function take_more(account, budgets, note, amount)
  take_budgets(account, budgets, amount)
  for _, who in ipairs(note and { 'account', 'key' } or {}) do
    local field = who == 'key' and field_of(note.counter) or OF_ACCOUNT
    local window = note[who].since and not budgets[who] and read_window(account, field)
    if window and window.since == note[who].since then
      window.used, window.is_changed = math.min(MAX_AMOUNT, window.used + amount), true
    end
  end
end

-- What the text of a hold says of its windows, or nil. The gateway writes meta as JSON: no text of a client can look so.
local function read_note(text)
  local since, base, key_since, key_base, counter =
    match(text, '"held":"(%S+) (%d+) (%S+) (%d+) (%S+)"')
  if not since then return nil end
  return {
    account = { since = tonumber(since), base = number(base) },
    key = { since = tonumber(key_since), base = number(key_base) },
    counter = counter,
  }
end

local function without_note(tail)
  return (string.gsub(tail, ',"held":"[^"]*"', '', 1))
end

-- The text of a hold that takes from budgets, also when it is extended: what it had before then counts where it did.
-- `held` is what it has had, and `note` what was read of it.
local function with_note(tail, budgets, note, held)
  if #budgets.all == 0 and not note then return tail end
  note = note or { account = {}, key = {}, counter = budgets.counter or '-' }
  local words = {}
  for _, who in ipairs({ 'account', 'key' }) do
    local part, budget = note[who], budgets[who]
    local since, base = part.since, part.base or 0
    if budget and since ~= budget.window.since then since, base = budget.window.since, held end
    words[#words + 1] = since and int(since) or '-'
    words[#words + 1] = int(base)
  end
  words[#words + 1] = note.counter
  return string.sub(without_note(tail), 1, -2) .. ',"held":"' .. table.concat(words, ' ') .. '"}'
end

-- For a charge whose hold is gone (Redis forgot the hold, or it was reaped): the charge counts in the windows that run.
local function note_of_now(account, key)
  if not account.budget and not key.budget then return nil end
  local function part(text, field)
    local window = text and text ~= '' and read_window(account, field)
    return { since = window and window.since, base = 0 }
  end
  local counter = counter_of(key)
  return {
    account = part(account.budget, OF_ACCOUNT), key = part(counter, field_of(counter)),
    counter = counter or '-',
  }
end

-- Returns how much of `due` counts in the window that runs. What the charge needs beyond its hold, after the window of the
-- hold has ended, counts in the next one.
local function book_in(account, field, part, held, due)
  local window = part.since and read_window(account, field)
  if not window then return nil, 0 end
  local counted, freed = math.max(0, due - held), 0
  if window.since == part.since then
    counted, freed = math.max(0, due - part.base), math.max(0, held - part.base)
  end
  if counted ~= freed then
    window.used = math.min(MAX_AMOUNT, math.max(0, window.used - freed + counted))
    window.is_changed = true
  end
  return window.since, counted
end

-- What the reapings of a hold have counted in windows is a field beside its mark, as what they waived is.
local function counted_field(hold_id)
  return hold_id .. ':counted'
end

-- What a charge counts in windows, of the account and of a key, as the journal has it.
local COUNTED = '%s %d %s %d %s'
local function counted_text(since, tokens, key_since, key_tokens, counter)
  if tokens == 0 and key_tokens == 0 then return nil end
  return format(COUNTED, since and int(since) or '-', tokens, key_since and int(key_since) or '-',
    key_tokens, counter)
end

local function read_counted(text)
  local since, tokens, key_since, key_tokens, counter = match(text or '', '^(%S+) (%d+) (%S+) (%d+) (%S+)$')
  return tonumber(since or ''), number(tokens), tonumber(key_since or ''), number(key_tokens), counter
end

-- A correction that takes back some of a charge gives it back to the window that it was counted in, if that still runs.
local function book_back(account, field, since, tokens, back)
  local window = since and read_window(account, field)
  if not window or window.since ~= since then return 0 end
  local given = math.min(tokens, back, window.used)
  window.used, window.is_changed = window.used - given, true
  return given
end

-- Books that a hold of `held` tokens has ended, and was charged `due`. What of it counts in windows is on record in the
-- journal: `<since> <tokens> <since> <tokens> <key id>:<every>`, below 0 where it comes back. `counted` is what reapings
-- of the same hold have counted, in these words; returns it with what this charge counts.
local function book_budgets(account, charge, note, held, due, counted)
  local since, tokens, key_since, key_tokens, counter = nil, 0, nil, 0, nil
  if note then
    counter = note.counter
    since, tokens = book_in(account, OF_ACCOUNT, note.account, held, due)
    key_since, key_tokens = book_in(account, field_of(counter), note.key, held, due)
  end
  local old, old_tokens, old_key, old_key_tokens, old_counter = read_counted(counted)
  if due < 0 and old_counter then
    charge.counted = counted_text(
      old, -book_back(account, OF_ACCOUNT, old, old_tokens, -due),
      old_key, -book_back(account, field_of(old_counter), old_key, old_key_tokens, -due), old_counter)
    return counted
  end
  charge.counted = counted_text(since, tokens, key_since, key_tokens, counter)
  if not charge.counted or not old_counter then return charge.counted or counted end
  -- Two windows of one budget never run at the same time: of an earlier one, nothing can come back any more.
  if tokens == 0 then since, tokens = old, old_tokens elseif since == old then tokens = tokens + old_tokens end
  if key_tokens == 0 then key_since, key_tokens, counter = old_key, old_key_tokens, old_counter
  elseif key_since == old_key and counter == old_counter then key_tokens = key_tokens + old_key_tokens end
  return counted_text(since, tokens, key_since, key_tokens, counter)
end
