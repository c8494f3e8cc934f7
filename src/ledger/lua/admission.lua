-- Purpose: reads and checks the key, and reaps expired holds. Stands before identify, admit and extend.
-- A function named find_ or book_ writes nothing: all checks precede all writes.

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

-- A Redis that refuses this write, because its memory is full, can still answer whose key it is.
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
  local note = read_note(meta)
  if note then meta = without_note(meta) end
  local charge = {
    id = id, model = model, key_id = key_id, flags = 'e', meta = meta, implausible = 0,
  }
  local due = math.max(0, number(total) - before.charge)
  account.reserved = account.reserved - number(amount)
  prompt, cached, completion = number(prompt), number(cached), number(completion)
  -- A hold that was opened again has no counts in its row until its next checkpoint: the counts of its reaping stay. Once
  -- the row has more to charge, its own counts stay, so that the charge can be recomputed from them.
  if due == 0 then
    prompt, cached = math.max(prompt, before.prompt), math.max(cached, before.cached)
    completion = math.max(completion, before.completion)
  end
  book_charge(account, charge, due, before)
  charge.counted_in_all = book_budgets(account, charge, note, number(amount), due, counted)
  count_usage(charge, charge.total, prompt, cached, completion, before)
  charge.mark = 'r ' .. int(charge.total) .. ' ' .. charge.usage
  charge.waived_in_all = before.waived + charge.waived
  return charge
end

-- Returns at most 100 expired holds. They are already booked in `account`; `repaid` is what the freed
-- rest of them pays of the account's debt. While Redis has run for less than a lease, no hold is reaped: its gateway
-- had no chance to renew the lease.
local function find_expired(account, now, lease)
  local ids = call('ZRANGEBYSCORE', hold_leases, '-inf', int(now), 'LIMIT', 0, REAP_AT_ONCE + 1)
  local reap = { charges = {}, by_key = {}, more = false }
  if #ids == 0 or uptime_ms() < lease then return reap end
  reap.more = #ids > REAP_AT_ONCE
  if reap.more then ids[#ids] = nil end
  reap.hour, reap.day = usage_keys(now)
  -- Only so that a moving slot refuses these keys before the first write.
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
    call('HINCRBY', account_key, 'open:' .. charge.key_id, -1)
    write_charge(charge)
    -- Read only now, because the holds before this one may have written the same sums.
    read_usage(reap.hour, reap.day, charge)
    write_usage(reap.hour, reap.day, charge)
  end
  write_repayment(reap.repaid)
  write_sums(account)
end
