-- Purpose: the windows of the calendar by which allowances and budgets go, as the gateway's time zone has them.

-- `windows` ends with `<start> <end>` of the day, the week and the month, in ms. Returns the start and the end of the
-- window of `every`. Returns nil when Redis' time is not in it: the gateway's clock is wrong, or that window has just
-- ended. The gateway is then asked to send the windows again.
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
