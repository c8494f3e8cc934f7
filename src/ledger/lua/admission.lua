-- Purpose: brings an account up to date before its next request: reaps expired holds, and renews the allowance once
-- Redis' clock has passed the end of its window; and reads and checks the key. Stands after budgets, before the scripts
-- that reap. A function named find_ or book_ writes nothing: all checks precede all writes.

local REAP_AT_ONCE = 100

local function read_key(key)
  local found = call('HMGET', key, 'id', 'scopes', 'models', 'expires_at', 'revoked_at',
    'last_used_at', 'rpm', 'tpm', 'concurrency', 'minute', 'requests', 'tokens', 'budget', 'budget_of')
  return {
    id = found[1], scopes = found[2] or '', models = found[3] or '*',
    expires_at = tonumber(found[4] or ''), revoked_at = tonumber(found[5] or ''),
    last_used_at = number(found[6]), rpm = tonumber(found[7] or ''), tpm = tonumber(found[8] or ''),
    concurrency = tonumber(found[9] or ''), minute = number(found[10]),
    requests = number(found[11]), tokens = number(found[12]),
    budget = found[13], budget_of = found[14],
  }
end

local function listed(word, words)
  return words == '*' or string.find(' ' .. words .. ' ', ' ' .. word .. ' ', 1, true) ~= nil
end

-- Why this caller is refused, or nil.
local function find_refusal(account, key, scope, now)
  local seconds = now / 1000
  if key.revoked_at and key.revoked_at <= seconds then return 'api_key_revoked' end
  if key.expires_at and key.expires_at <= seconds then return 'api_key_expired' end
  if scope ~= '' and not listed(scope, key.scopes) then return 'insufficient_scope' end
  if account.status == 'suspended' then return 'account_suspended' end
  return nil
end

-- Notes when the key was used. By pcall, so that the script goes on when Redis' memory is full and it refuses this write.
local function touch_key(key_name, key, now)
  local seconds = math.floor(now / 1000)
  if seconds - key.last_used_at >= 60 then
    redis.pcall('HSET', key_name, 'last_used_at', int(seconds))
  end
end

local function book_reaping(account, id, value, mark, waived, counted)
  local amount, total, prompt, cached, completion, key_id, model, meta =
    match(value, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (.*)$')
  local before = read_reaped(mark, waived)
  local hold_windows = read_hold_windows(meta)
  if hold_windows then meta = without_hold_windows(meta) end
  local charge = {
    id = id, model = model, key_id = key_id, flags = 'e', meta = meta, implausible = 0,
  }
  local due = math.max(0, number(total) - before.charge)
  account.reserved = account.reserved - number(amount)
  prompt, cached, completion = number(prompt), number(cached), number(completion)
  -- If nothing is due, the counts of an earlier reaping stay where they are greater: the row of a hold that was opened
  -- again has none until its next checkpoint. If something is due, only the row's counts are used: the audit computes
  -- the charge from them.
  if due == 0 then
    prompt, cached = math.max(prompt, before.prompt), math.max(cached, before.cached)
    completion = math.max(completion, before.completion)
  end
  book_charge(account, charge, due, before)
  charge.counted_in_all = book_budgets(account, charge, hold_windows, number(amount), due, counted)
  count_usage(charge, charge.total, prompt, cached, completion, before)
  charge.mark = 'r ' .. int(charge.total) .. ' ' .. charge.usage
  charge.waived_in_all = before.waived + charge.waived
  return charge
end

-- Finds at most 100 expired holds, and books their charges in `account`. `repaid` is what the account then pays of its
-- debt, from what the holds give back. While Redis has run for less than a lease, no hold is reaped: its gateway had no
-- chance to renew the lease.
local function find_expired(account, now, lease)
  local ids = call('ZRANGEBYSCORE', hold_leases, '-inf', int(now), 'LIMIT', 0, REAP_AT_ONCE + 1)
  local reap = { charges = {}, by_key = {}, more = false }
  if #ids == 0 or uptime_ms() < lease then return reap end
  reap.more = #ids > REAP_AT_ONCE
  if reap.more then ids[#ids] = nil end
  reap.hour, reap.day = usage_keys(now)
  -- Reads these keys for one reason: while their slot moves, Redis must refuse the script before its first write.
  call('EXISTS', reap.hour, reap.day)
  local values = call('HMGET', hold_rows, unpack(ids))
  for i, id in ipairs(ids) do
    local settled = settled_of(id)
    local found = call('HMGET', settled, id, waived_field(id), counted_field(id))
    local charge = book_reaping(account, id, values[i], found[1], found[2], found[3])
    charge.settled = settled
    reap.charges[i] = charge
    reap.by_key[charge.key_id] = (reap.by_key[charge.key_id] or 0) + 1
  end
  reap.repaid = book_repayment(account)
  return reap
end

local function write_reaping(account, reap)
  if #reap.charges == 0 then return end
  for _, charge in ipairs(reap.charges) do
    call('ZREM', hold_leases, charge.id)
    call('HDEL', hold_rows, charge.id)
    call('HSET', charge.settled, charge.id, charge.mark)
    if charge.waived_in_all > 0 then
      call('HSET', charge.settled, waived_field(charge.id), int(charge.waived_in_all))
    end
    if charge.counted_in_all then
      call('HSET', charge.settled, counted_field(charge.id), charge.counted_in_all)
    end
    call('EXPIRE', charge.settled, MARK_SECONDS)
    call('HINCRBY', account_key, open_field(charge.key_id), -1)
    write_charge(charge)
    -- Read only now, because the holds before this one may have written the same sums.
    read_usage(reap.hour, reap.day, charge)
    write_usage(reap.hour, reap.day, charge)
  end
  write_repayment(reap.repaid)
  write_sums(account)
end

-- Returns how many tokens the allowance should have now, and when its window ends. Returns nil if the allowance is
-- right, and `clock` if Redis' time is not in the window of that length that the gateway has sent.
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
  if not start then return 'clock' end
  -- Only a window that began after the last one's end renews. One that began before (of another time zone, or longer)
  -- carries the last one on, to the later of both ends. Another plan gives its tokens less what was used. So nothing is
  -- renewed twice.
  local used, target = had.used, had.left
  if is_over and start >= had.ends then
    target = number(tokens) + (keeps == '1' and had.left or 0)
    used = 0
  elseif had.plan ~= account.plan then
    target = math.max(number(tokens) - used, keeps == '1' and had.left or 0)
  end
  return { target = math.min(target, MAX_AMOUNT), used = used, ends = math.max(had.ends, ends), had = had }
end

-- Books what find_renewal has found. It takes back the rest of the last window, as far as no open hold has reserved it. If some
-- of it is reserved, the allowance gets no plan: so the next call renews again, and takes back what has become free by then.
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
