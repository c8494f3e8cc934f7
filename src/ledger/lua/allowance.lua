-- Purpose: the allowance that a plan gives for each day, week or month. Stands before the prelude, and touches no key.
-- An allowance is a part of the balance: `granted` has it, and charges take from it before they take from the rest.

-- `windows` ends with `<start> <end>` of the day, the week and the month, in ms, as the gateway's time zone has them.
-- Returns nil when the gateway's clock is so wrong that Redis' time is in none of them: the caller then asks again.
local function window_now(windows, every, now)
  local day, day_end, week, week_end, month, month_end =
    match(windows, '(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
  local start, ends = day, day_end
  if every == 'week' then start, ends = week, week_end end
  if every == 'month' then start, ends = month, month_end end
  start, ends = number(start), number(ends)
  if now < start or now >= ends then return nil end
  return start, ends
end

-- A window of a budget, as the account's row has it.
local function window_text(window)
  return window.every .. format(' %d %d %d', window.since, window.ends, window.used)
end

-- A field of the account: `<left> <used> <end of the window, ms> <plan>`. `used` has been taken from it in this window.
local function read_allowance(text)
  local left, used, ends, plan = match(text or '', '^(%d+) (%d+) (%d+) (.*)$')
  if not left then return nil end
  return { left = number(left), used = number(used), ends = number(ends), plan = plan }
end

local function allowance_text(allowance)
  return format('%d %d %d ', allowance.left, allowance.used, allowance.ends) .. allowance.plan
end

-- Takes what an account pays from its allowance first, and returns how much. What a correction gives back (then `paid` is
-- negative) goes to the allowance as far as this window has used it: otherwise it would outlive the window.
local function draw_allowance(account, paid)
  local allowance = account.allowance
  if not allowance or paid == 0 then return 0 end
  local drawn = paid > 0 and math.min(allowance.left, paid) or -math.min(allowance.used, -paid)
  allowance.left, allowance.used = allowance.left - drawn, allowance.used + drawn
  if drawn ~= 0 then allowance.is_changed = true end
  return drawn
end

-- An adjustment takes from the rest of the balance first, and a gateway from before allowances takes from the balance
-- alone. Must be called where the allowance may be more than the balance; returns what it is lowered by.
local function draw_beyond_balance(account)
  if not account.allowance then return 0 end
  local over = account.allowance.left - (account.granted - account.spent)
  return draw_allowance(account, math.max(0, over))
end
