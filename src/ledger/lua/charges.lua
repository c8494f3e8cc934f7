-- Purpose: the charge of a hold that ends, settled or reaped: what the account pays, owes, or is waived, and the mark
-- that stays of the hold. Stands after sums.

local NOTHING_BEFORE = { charge = 0, prompt = 0, cached = 0, completion = 0, waived = 0 }

-- The waived part of a reaped hold's charge is a field beside its mark. A mark with one more word would be unreadable
-- for a gateway from before shadow mode, which would then charge the hold again.
local function waived_field(hold_id)
  return hold_id .. ':waived'
end

-- The field that keeps what the reapings of a hold have counted in windows of budgets.
local function counted_field(hold_id)
  return hold_id .. ':counted'
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
  -- A correction may give tokens back: then `paid` is below 0, but never so low that the balance would exceed MAX_AMOUNT. A
  -- refund may have raised the balance meanwhile.
  local lowest = account.granted - account.spent - MAX_AMOUNT
  local paid = math.max(lowest, math.min(rest, available_of(account)))
  charge.paid, charge.drawn = paid, draw_allowance(account, paid)
  if rest > paid and string.find(charge.meta, SHADOW, 1, true) then
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

-- An entry of amount 0 is written only where something is owed, waived or implausible, because that must stay on
-- record.
local function write_charge(charge)
  if charge.paid == 0 and charge.owed == 0 and charge.waived == 0 and charge.implausible == 0 then return end
  local more = {}
  if charge.owed > 0 then add_field(more, 'owed', int(charge.owed)) end
  if charge.waived ~= 0 then add_field(more, 'waived', int(charge.waived)) end
  if charge.implausible > 0 then add_field(more, 'implausible', int(charge.implausible)) end
  if charge.drawn ~= 0 then add_field(more, 'allowance', int(charge.drawn)) end
  if charge.counted then add_field(more, 'budget', charge.counted) end
  -- Its type stays `charge`: by the type, gateways of earlier versions tell which sum an entry changes.
  if charge.before > 0 then
    add_field(more, 'as', 'correction')
    add_field(more, 'before', int(charge.before))
  end
  call('XADD', journal, '*', 'type', 'charge', 'amount', int(-charge.paid),
    'balance', int(charge.balance), 'hold', charge.id, 'model', charge.model,
    'key', charge.key_id, 'usage', charge.usage, 'flags', charge.flags,
    'meta', charge.meta, unpack(more))
end
