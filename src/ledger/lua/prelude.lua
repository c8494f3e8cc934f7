-- Purpose: what the scripts that move money share: the account with its allowance, its charges and its journal.
-- A function named read_, find_ or book_ writes nothing: all checks precede all writes.
-- Amounts are integers up to 2^53-1: doubles hold them exactly.

local HOUR_MS = 3600000
local DAY_MS = 86400000
local MINUTE_MS = 60000
local MAX_AMOUNT = 9007199254740991
-- Set at the first settlement of an hour, this keeps each mark of the hour for 25 hours at least.
local MARK_SECONDS = 26 * 3600

local account_key, hold_leases, hold_rows, journal = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- Only the script knows Redis' hour, so the script derives the keys of an hour from the account's key: with the same
-- tag, all these keys lie in the same slot. While a Cluster moves this slot, it can refuse a derived key at any call.
-- So the script reads each derived key before the first write: a refusal has then changed nothing. See
-- docs/decisions/0024-keys-derived-in-lua.md.
local tag = string.sub(account_key, 1, -1 - #'account')

-- A Redis whose memory is full refuses a script at its first write, unless that write only frees memory, as HDEL does. So
-- a script that calls this before its other writes runs all the same: it ends what has begun, or makes room.
local function write_when_full()
  call('HDEL', account_key, '')
end

-- A hold id is a UUIDv7 in hex: its first 12 digits are its time.
local function made_at(hold_id)
  return tonumber(string.sub(hold_id, 1, 12), 16)
end

-- The key of the hash that keeps a hold's mark: one hash for each hour of hold ids.
local function settled_of(hold_id)
  return tag .. format('settled:%d', math.floor(made_at(hold_id) / HOUR_MS))
end

-- `windows` ends with `<start> <end>` of the day, the week and the month, in ms, as the gateway's time zone has them.
-- Returns nil when Redis' time is not in the one of `every`: the gateway's clock is wrong, or that window has just ended.
-- The gateway is then asked to send the windows again.
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

-- An allowance is what a plan gives for each day, week or month. It is a part of the balance: `granted` has it, and charges
-- take from it before they take from the rest. A field of the account has it: `<left> <used> <end of the window, ms>
-- <plan>`. `used` has been taken from it in this window.
local function read_allowance(text)
  local left, used, ends, plan = match(text or '', '^(%d+) (%d+) (%d+) (.*)$')
  if not left then return nil end
  return { left = number(left), used = number(used), ends = number(ends), plan = plan }
end

local function allowance_text(allowance)
  return format('%d %d %d ', allowance.left, allowance.used, allowance.ends) .. allowance.plan
end

-- Takes what an account pays from its allowance first, and returns how much. What a correction gives back (then `paid` is
-- negative) goes to the allowance, as far as this window has used it: in the rest of the balance, tokens of the allowance
-- would outlive their window.
local function draw_allowance(account, paid)
  local allowance = account.allowance
  if not allowance or paid == 0 then return 0 end
  local drawn = paid > 0 and math.min(allowance.left, paid) or -math.min(allowance.used, -paid)
  allowance.left, allowance.used = allowance.left - drawn, allowance.used + drawn
  if drawn ~= 0 then allowance.is_changed = true end
  return drawn
end

-- Lowers an allowance that is more than the balance to the balance, and returns by how much. This must be called wherever it
-- may be more: after an adjustment, which takes from the rest of the balance first, and where a gateway of an earlier
-- version, which knows no allowances, may have charged the account.
local function draw_beyond_balance(account)
  if not account.allowance then return 0 end
  local over = account.allowance.left - (account.granted - account.spent)
  return draw_allowance(account, math.max(0, over))
end

-- The field of the account that counts the open holds of a key.
local function open_field(key_id)
  return 'open:' .. key_id
end

-- `open_of_key` is how many open holds the key `key_id` has; 0 without one.
local function read_account(key_id)
  local found = call('HMGET', account_key, 'id', 'name', 'status', 'plan', 'granted', 'spent',
    'reserved', 'minute', 'requests', 'tokens', 'owed', 'allowance', 'budget', 'window',
    open_field(key_id or ''))
  local owed = number(found[11])
  return {
    id = found[1], name = found[2] or '', status = found[3], plan = found[4] or 'default',
    granted = number(found[5]), spent = number(found[6]), reserved = number(found[7]),
    minute = number(found[8]), requests = number(found[9]), tokens = number(found[10]),
    owed = owed, owed_before = owed, allowance = read_allowance(found[12]),
    budget = found[13], window_text = found[14], open_of_key = number(found[15]),
  }
end

local function available_of(account)
  return account.granted - account.spent - account.reserved
end

-- A hold that was made in shadow mode says so in its meta, which the gateway writes as JSON: a text of a client cannot
-- contain these quotes unescaped.
local function is_shadow(meta)
  return string.find(meta, '"shadow":true', 1, true) ~= nil
end

-- The sum of what was waived is read only by a call that waives something.
local function add_waived(account, amount)
  account.waived = account.waived or number(call('HGET', account_key, 'waived'))
  local added = math.min(amount, MAX_AMOUNT - account.waived)
  account.waived = account.waived + added
  return added
end

-- Adds a charge to the sums that were read; write_charge, write_usage and write_sums store it. `due` is what was used
-- and not charged before: the account pays what it has available, and owes the rest; in shadow mode the rest is waived.
-- `before` is what an earlier reaping of the same hold charged. A booking that follows a reaping's charge is a
-- correction, so each request has exactly one charge.
local function book_charge(account, charge, due, before)
  charge.owed, charge.waived = 0, 0
  -- A correction takes back first what was waived, because the account has not paid that.
  local unwaived = math.min(before.waived, math.max(0, -due))
  if unwaived > 0 then charge.waived = add_waived(account, -unwaived) end
  local rest = due - charge.waived
  -- A correction may give tokens back: then `paid` is negative, but not below `most_back`. Without this bound, the balance
  -- could exceed MAX_AMOUNT, if a refund has raised it before.
  local most_back = account.granted - account.spent - MAX_AMOUNT
  local paid = math.max(math.min(rest, available_of(account)), most_back)
  charge.paid, charge.drawn = paid, draw_allowance(account, paid)
  if rest > paid and is_shadow(charge.meta) then
    charge.waived = add_waived(account, rest - paid)
  else
    charge.owed = math.min(math.max(0, rest - paid), MAX_AMOUNT - account.owed)
  end
  account.owed = account.owed + charge.owed
  account.spent = account.spent + paid
  charge.before = before.charge
  charge.balance = account.granted - account.spent
  charge.total = before.charge + paid + charge.owed + charge.waived
end

-- Must be called whenever tokens may have become available: they first pay what the account owes. So while an account
-- owes anything, it has nothing available. Returns the repayment for write_repayment, or nil.
local function book_repayment(account)
  if account.owed == 0 then return nil end
  local paid = math.min(account.owed, available_of(account))
  if paid == 0 then return nil end
  account.spent = account.spent + paid
  account.owed = account.owed - paid
  local drawn = draw_allowance(account, paid)
  return { paid = paid, drawn = drawn, balance = account.granted - account.spent }
end

-- An entry of amount 0 is written only where something is owed, waived or implausible, because that must stay on record.
local function write_charge(charge)
  if charge.paid ~= 0 or charge.owed > 0 or charge.waived ~= 0 or charge.implausible > 0 then
    local more = {}
    local function add(name, value)
      more[#more + 1] = name
      more[#more + 1] = value
    end
    if charge.owed > 0 then add('owed', int(charge.owed)) end
    if charge.waived ~= 0 then add('waived', int(charge.waived)) end
    if charge.implausible > 0 then add('implausible', int(charge.implausible)) end
    if charge.drawn ~= 0 then add('allowance', int(charge.drawn)) end
    if charge.counted then add('budget', charge.counted) end
    -- Its type stays `charge`: by the type, gateways of earlier versions tell which sum an entry changes.
    if charge.before > 0 then
      add('as', 'correction')
      add('before', int(charge.before))
    end
    call('XADD', journal, '*', 'type', 'charge', 'amount', int(-charge.paid),
      'balance', int(charge.balance), 'hold', charge.id, 'model', charge.model,
      'key', charge.key_id, 'usage', charge.usage, 'flags', charge.flags,
      'meta', charge.meta, unpack(more))
  end
end

local function write_repayment(repayment)
  if not repayment then return end
  local more = {}
  if repayment.drawn ~= 0 then more = { 'allowance', int(repayment.drawn) } end
  call('XADD', journal, '*', 'type', 'repayment', 'amount', int(-repayment.paid),
    'balance', int(repayment.balance), 'meta', '{}', unpack(more))
end

-- The fields of the allowance and the windows that have changed, with their values, as HSET takes them. Most accounts have
-- neither.
local function changed_fields(account)
  local fields, allowance = {}, account.allowance
  if not allowance and not account.windows then return fields end
  if allowance and allowance.is_changed then
    fields = { 'allowance', allowance_text(allowance) }
    allowance.is_changed = false
  end
  for field, window in pairs(account.windows or {}) do
    if window and window.is_changed then
      fields[#fields + 1] = field
      fields[#fields + 1] = window_text(window)
      window.is_changed = false
    end
  end
  return fields
end

-- The caller may add further fields with their values.
local function write_sums(account, ...)
  call('HSET', account_key, 'granted', int(account.granted), 'spent', int(account.spent),
    'reserved', int(account.reserved), ...)
  if account.owed ~= account.owed_before then call('HSET', account_key, 'owed', int(account.owed)) end
  if account.waived then call('HSET', account_key, 'waived', int(account.waived)) end
  local fields = changed_fields(account)
  if #fields > 0 then call('HSET', account_key, unpack(fields)) end
end

local NOTHING_BEFORE = { charge = 0, prompt = 0, cached = 0, completion = 0, waived = 0 }

-- The waived part of a reaped hold's charge is a field beside its mark. A mark with one more word would be unreadable for
-- a gateway from before shadow mode, which would then charge the hold again.
local function waived_field(hold_id)
  return hold_id .. ':waived'
end

-- A mark: `s <charge> <owed of it>` (settled) or `r <charge> <prompt> <cached> <completion>` (reaped).
local function read_reaped(mark, waived)
  if not mark then return NOTHING_BEFORE end
  local charge, prompt, cached, completion = match(mark, '^r (%d+) (%d+) (%d+) (%d+)$')
  return {
    charge = number(charge), prompt = number(prompt), cached = number(cached),
    completion = number(completion), waived = number(waived),
  }
end
