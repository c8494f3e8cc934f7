-- Purpose: renews an account's allowance, once Redis' clock has passed the end of its window. Stands before admit and
-- identify. A function named book_ writes nothing: all checks precede all writes.

-- Returns how many tokens the allowance should have now, and when its window ends; nil if it is right; `again` if the windows
-- that the gateway has sent are not those of Redis' time.
local function find_renewal(account, offer, now)
  local tokens, every, keeps = match(offer, '^(%S+) (%a+) (%d)')
  local had = account.allowance
  if not had and not tokens then return nil end
  had = had or { left = 0, used = 0, ends = 0, plan = account.plan }
  local is_over = now >= had.ends
  if not is_over and had.plan == account.plan then return nil end
  if not tokens then
    if had.left == 0 then return nil end
    return { target = 0, used = had.used, ends = had.ends, had = had }
  end
  local start, ends = window_now(offer, every, now)
  if not start then return 'again' end
  -- A window that has begun runs to its end, and the next one begins there: neither another plan nor another time zone
  -- renews an allowance twice.
  local used, target = had.used, had.left
  if is_over and start >= had.ends then
    target = number(tokens) + (keeps == '1' and had.left or 0)
    used = 0
  elseif had.plan ~= account.plan then
    target = math.max(number(tokens) - used, keeps == '1' and had.left or 0)
  end
  return { target = math.min(target, MAX_AMOUNT), used = used, ends = math.max(had.ends, ends), had = had }
end

-- Books what find_renewal has found. The rest of the last window is taken back, but not what open holds have of it. If they
-- have some, the row gets no plan: the next call then renews again, and takes back what has become free.
local function book_renewal(account, renewal)
  local had = renewal.had
  local allowance = { left = had.left, used = had.used, ends = renewal.ends, plan = account.plan }
  account.allowance = allowance
  renewal.drawn = draw_beyond_balance(account)
  allowance.used = renewal.used
  local missing = renewal.target - allowance.left
  local amount = math.min(missing, MAX_AMOUNT - account.granted)
  if missing < 0 then
    amount = -math.min(-missing, available_of(account))
    if amount > missing then allowance.plan = '' end
  end
  account.granted, allowance.left = account.granted + amount, allowance.left + amount
  allowance.is_changed = true
  renewal.amount, renewal.balance = amount, account.granted - account.spent
  renewal.repaid = book_repayment(account)
end

local function write_renewal(account, renewal)
  if not renewal then return end
  if renewal.amount ~= 0 or renewal.drawn ~= 0 then
    call('XADD', journal, '*', 'type', 'allowance', 'amount', int(renewal.amount),
      'balance', int(renewal.balance), 'allowance', int(renewal.drawn), 'meta', '{}')
  end
  write_repayment(renewal.repaid)
  write_sums(account)
end
