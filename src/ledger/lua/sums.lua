-- Purpose: what changes the sums of an account: its allowance, what it owes, and the writing of both.
--
-- An allowance is what a plan gives for each day, week or month. It is a part of the balance: `granted` has it, and
-- charges take from it before they take from the rest. A field of the account has it: `<left> <used> <end of the
-- window, ms> <plan>`. `used` has been taken from it in this window.

-- Returns the allowance, or nil if there is none. The caller must set `account.allowance` to it.
local function read_allowance(account)
  local left, used, ends, plan = match(account.allowance_text or '', '^(%d+) (%d+) (%d+) (.*)$')
  if not left then return nil end
  return { left = number(left), used = number(used), ends = number(ends), plan = plan }
end

-- Takes what an account pays from its allowance first, and returns how much. What a correction gives back (then `paid`
-- is negative) goes to the allowance, as far as this window has used it: in the rest of the balance, tokens of the
-- allowance would outlive their window.
local function draw_allowance(account, paid)
  local allowance = account.allowance
  if not allowance or paid == 0 then return 0 end
  local drawn = paid > 0 and math.min(allowance.left, paid) or -math.min(allowance.used, -paid)
  allowance.left, allowance.used = allowance.left - drawn, allowance.used + drawn
  if drawn ~= 0 then allowance.is_changed = true end
  return drawn
end

-- Lowers an allowance that is more than the balance to the balance, and returns by how much. This must be called
-- wherever it may be more: after an adjustment, which takes from the rest of the balance first, and where a gateway of
-- an earlier version, which knows no allowances, may have charged the account.
local function draw_beyond_balance(account)
  if not account.allowance then return 0 end
  local over = account.allowance.left - (account.granted - account.spent)
  return draw_allowance(account, math.max(0, over))
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

local function write_repayment(repayment)
  if not repayment then return end
  local more = {}
  if repayment.drawn ~= 0 then add_field(more, 'allowance', int(repayment.drawn)) end
  call('XADD', journal, '*', 'type', 'repayment', 'amount', int(-repayment.paid),
    'balance', int(repayment.balance), 'meta', '{}', unpack(more))
end

-- Writes the sums, and `fields`, a list of further fields with their values. This function does not write `granted`: a
-- caller that has changed it must put it into `fields`.
local function write_sums(account, fields)
  if account.owed ~= account.owed_before then add_field(fields, 'owed', int(account.owed)) end
  if account.waived then add_field(fields, 'waived', int(account.waived)) end
  local allowance = account.allowance
  if allowance and allowance.is_changed then
    local numbers = format('%d %d %d ', allowance.left, allowance.used, allowance.ends)
    add_field(fields, 'allowance', numbers .. allowance.plan)
  end
  call('HSET', account_key, 'spent', int(account.spent), 'reserved', int(account.reserved), unpack(fields))
end
