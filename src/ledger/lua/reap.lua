-- Purpose: ends holds whose lease has ended, at most 100 a call. Each is charged what its last checkpoint says, and the
-- rest goes back, first to what the account owes.
-- KEYS: account, hold rows, journal
-- ARGV: 1 lease ms
-- Reply: ok, now, how many were reaped

local lease = ARGV[1]

-- Books in `account` that the hold has ended, and returns its charge.
local function book_reaping(account, id, row)
  local settled = settled_of(id)
  local mark, waived, counted = unpack(call('HMGET', settled, id, waived_field(id), counted_field(id)))
  local is_old = not deadline_of(row)
  local amount, total, prompt, cached, completion, key_id, model, meta =
    match(is_old and row or string.sub(row, 1, -15), '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (.*)$')
  local before = read_reaped(mark, waived)
  local hold_windows = read_hold_windows(meta)
  if hold_windows then meta = without_hold_windows(meta) end
  local charge = {
    id = id, model = model, key_id = key_id, flags = 'e', meta = meta, implausible = 0, settled = settled,
    is_old = is_old,
  }
  local due = math.max(0, number(total) - before.charge)
  account.reserved = account.reserved - number(amount)
  prompt, cached, completion = number(prompt), number(cached), number(completion)
  -- If nothing is due, the greater of each count stays: a hold that was opened again has zeros in its row until its next
  -- checkpoint. If something is due, the row's counts are taken: the audit computes the charge from them.
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

local function write_reaping(account, charge)
  local fields = { charge.id, charge.mark }
  if charge.waived_in_all > 0 then add_field(fields, waived_field(charge.id), int(charge.waived_in_all)) end
  if charge.counted_in_all then add_field(fields, counted_field(charge.id), charge.counted_in_all) end
  call('HSET', charge.settled, unpack(fields))
  call('EXPIRE', charge.settled, MARK_SECONDS)
  call('HINCRBY', account_key, OPEN .. charge.key_id, -1)
  if charge.is_old then call('ZREM', old_leases(), charge.id) else account.open = account.open - 1 end
  write_charge(charge)
end

local now = now_ms()
local account = read_account()
local expired = account.id and find_expired(account, now, lease, 100) or {}
if #expired == 0 then return { 'ok', now, 0 } end
account.allowance = read_allowance(account)
local charges, ids = {}, {}
for i, hold in ipairs(expired) do
  ids[i], charges[i] = hold[1], book_reaping(account, hold[1], hold[2])
  book_usage(now, charges[i])
end
-- What the holds give back pays first what the account owes.
local repaid = book_repayment(account)

-- First, because this only frees memory: so the script runs when Redis' memory is full, as `write_when_full` does.
call('HDEL', hold_rows, unpack(ids))
for _, charge in ipairs(charges) do write_reaping(account, charge) end
write_usages()
write_repayment(repaid)
local fields = { 'open', int(math.max(0, account.open)) }
add_windows(account, fields)
write_sums(account, fields)
return { 'ok', now, #ids }
