-- Purpose: charges a hold exactly once, even if the call is repeated, lost, or follows a reaping. The rest of the hold
-- goes back, first to what the account owes. What was used is charged in full: the account owes what it cannot pay now,
-- unless the meta says that the hold was made in shadow mode: then that is waived.
-- KEYS: account, hold rows, journal, key
-- ARGV: 1 `<hold id> <total charge> <prompt> <cached> <completion> <tokens counted for the limit at admission>
--       <their minute> <implausible> <1 = its key had limits of its own>`;
--       2 `<key id> <model percent-encoded>`; 3 flags: e estimated, c cut; 4 meta
-- Reply: ok, now, charge, owed of it, balance, 1 = it was settled before, waived of it or 0 if it was settled before;
--          packed
--      | late, now | account_not_found, now

local key_key, flags, meta = KEYS[4], ARGV[3], ARGV[4]
local id, total, prompt, cached, completion, estimate, minute, implausible, had_limits =
  match(ARGV[1], '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d)$')
local key_id, model = match(ARGV[2], '^(%S+) (%S+)$')
total, prompt, cached = number(total), number(prompt), number(cached)
completion, estimate, minute = number(completion), number(estimate), number(minute)

local now = now_ms()
local row = call('HGET', hold_rows, id)
-- The row knows the key. A release order, which undoes an admission whose reply was lost, has '-' for it.
if row then key_id = match(row, '^%d+ %d+ %d+ %d+ %d+ (%S+)') end
local is_old = row and not deadline_of(row)
-- Only because a derived key has to be read before the first write.
if is_old then call('ZSCORE', old_leases(), id) end
local account, last_minute, tokens, open_of_key = read_account('minute', 'tokens', OPEN .. key_id)
account.allowance = read_allowance(account)
if not account.id then return { 'account_not_found', now } end
local settled = settled_of(id)
local mark, kept = unpack(call('HMGET', settled, id, 'kept'))
if mark and string.sub(mark, 1, 1) == 's' then
  local charge, owed = match(mark, '^s (%d+) (%d+)$')
  return packed({ 'ok', now, charge, owed, int(account.granted - account.spent), 1, '0' })
end
if not row and not mark and now - made_at(id) > DAY_MS then return { 'late', now } end
-- The books of a deleted account are closed.
if not row and call('HEXISTS', account_key, 'written_off') == 1 then return { 'late', now } end

local waived, counted_before
if mark then
  waived, counted_before = unpack(call('HMGET', settled, waived_field(id), counted_field(id)))
end

-- What the key's own limits have counted and, without a row, its budget: most settlements need neither.
local key_minute, key_tokens, key_budget, key_budget_of
if had_limits == '1' or not row then
  key_minute, key_tokens, key_budget, key_budget_of =
    unpack(call('HMGET', key_key, 'minute', 'tokens', 'budget', 'budget_of'))
end

local held, hold_windows = 0, nil
if row then
  held = number(match(row, '^%d+'))
  hold_windows = read_hold_windows(row)
else
  -- Redis has forgotten or reaped the hold: so its charge counts in the newest windows.
  local budget = call('HGET', account_key, 'budget')
  if budget or key_budget then
    hold_windows = read_counts(NO_COUNTS)
    local window = budget and budget ~= '' and read_window(account, OF_ACCOUNT)
    hold_windows.account.since = window and window.since
    local field = field_of({ id = key_id, budget = key_budget, budget_of = key_budget_of })
    local key_window = field and read_window(account, field)
    hold_windows.key.field = field or hold_windows.key.field
    hold_windows.key.since = key_window and key_window.since
  end
end
local before = read_reaped(mark, waived)
local charge = {
  id = id, model = model, key_id = key_id, flags = flags, meta = meta,
  implausible = number(implausible),
}
account.reserved = account.reserved - held
book_charge(account, charge, total - before.charge, before)
if hold_windows or counted_before then
  book_budgets(account, charge, hold_windows, held, total - before.charge, counted_before)
end
count_usage(charge, total, prompt, cached, completion, before)
book_usage(now, charge)
local repaid = book_repayment(account)
local charged = int(charge.total)

-- First, so that the script runs when Redis' memory is full, as `write_when_full` does.
call('HDEL', hold_rows, id)
mark = 's ' .. charged .. ' ' .. int(charge.owed)
-- A mark lies in the hash of its hold's hour. The first settlement that comes in this same hour makes the hash last for
-- all marks of the hour, and notes that as `kept`. A settlement in another hour, because its hold crossed the hour or a
-- clock is wrong, renews the hash's expiry itself.
local is_own_hour = math.floor(made_at(id) / HOUR_MS) == math.floor(now / HOUR_MS)
if is_own_hour and not kept then
  call('HSET', settled, id, mark, 'kept', '1')
else
  call('HSET', settled, id, mark)
end
if not is_own_hour or not kept then call('EXPIRE', settled, MARK_SECONDS) end
local fields = {}
if row then
  fields = { OPEN .. key_id, int(number(open_of_key) - 1) }
  if is_old then
    call('ZREM', old_leases(), id)
  else
    add_field(fields, 'open', int(math.max(0, account.open - 1)))
  end
end
write_charge(charge)
write_usages()
write_repayment(repaid)

-- The limit counted an estimate. While the same minute lasts, the real count replaces the estimate.
local correction = prompt + completion - estimate
if number(last_minute) == minute and correction ~= 0 then
  add_field(fields, 'tokens', int(math.max(0, number(tokens) + correction)))
end
add_windows(account, fields)
write_sums(account, fields)
if number(key_minute) == minute and correction ~= 0 then
  call('HSET', key_key, 'tokens', int(math.max(0, number(key_tokens) + correction)))
end
local waived_in_all = int(before.waived + charge.waived)
return packed({
  'ok', now, charged, int(charge.owed), int(account.granted - account.spent), 0, waived_in_all,
})
