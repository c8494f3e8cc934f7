-- Purpose: makes an open hold larger for a stream that goes on, stores what it has used so far, and renews its lease.
-- The call names the most that the hold shall have in all: so repeated calls never add more than that.
-- KEYS: account, hold rows, journal, key
-- ARGV: 1 `<lease ms> <reaped> <renewed>`, as in every call of an admission; nothing is renewed here;
--       2 `<hold id> <charge> <prompt> <cached> <completion>`, as at a checkpoint;
--       3 `<amount in all> <least> <shares>`: one call adds at most an equal share of what is available, or `least` if
--         that is more. The amount includes what a reaping of this hold has charged;
--       4 `<start> <end>` of the day, the week and the month that budgets go by
-- Reply: ok, now, amount in all, what is available besides | gone, now | account_suspended, now
--      | reap, now: reap.lua has to be called first
--      | windows, now: Redis' time is outside the window of ARGV 4 that is needed

local key_key, windows = KEYS[4], ARGV[4]
local lease, reaped = match(ARGV[1], '^(%d+) (%d)')
local id, progress = match(ARGV[2], '^(%S+) (.+)$')
local in_all, least, shares = match(ARGV[3], '^(%d+) (%d+) (%d+)$')
in_all, least, shares = number(in_all), number(least), number(shares)

-- Adds `amount`, by which the hold grows, to what is used of each budget. The operator may have taken a budget away
-- since the hold was made: its window, if it is still the newest, counts the growth all the same.
local function take_more(account, budgets, hold_windows, amount)
  take_budgets(account, budgets, amount)
  for _, who in ipairs(hold_windows and { 'account', 'key' } or {}) do
    local part = hold_windows[who]
    local window = part.since and not budgets[who] and read_window(account, part.field)
    if window and window.since == part.since then
      window.used, window.is_changed = math.min(MAX_AMOUNT, window.used + amount), true
    end
  end
end

local now = now_ms()
local account, status, budget = read_account('status', 'budget')
account.budget = budget
if not account.id then return { 'gone', now } end
if reaped == '0' and has_expired(account, now, lease) then return { 'reap', now } end
local row = call('HGET', hold_rows, id)
if not row then return { 'gone', now } end
if status == 'suspended' then return { 'account_suspended', now } end
local held, tail = match(row, '^(%d+) %d+ %d+ %d+ %d+ (.*) %d+$')
held = number(held)
local hold_windows = read_hold_windows(tail)
-- The key's budget counts only if it counted at admission, and if its window still has the same length.
local of_key, every
if hold_windows then of_key, every = match(hold_windows.key.field, ':([^:]+):(%a+)$') end
local key = { id = of_key, budget = of_key and call('HGET', key_key, 'budget') }
if key.budget and match(key.budget, '%a*$') ~= every then key.budget = nil end
local budgets = find_budgets(account, key, windows, now)
if not budgets then return { 'windows', now } end
local charged = number(match(call('HGET', settled_of(id), id) or '', '^r (%d+)'))
local available = math.min(available_of(account), budgets.left)
local missing = math.max(0, in_all - charged - held)
local added = math.min(missing, math.max(least, math.floor(available / shares)), available)
-- The expired holds that are left may have what is missing.
if added < missing and reaped == '1' and has_expired(account, now, lease) then return { 'reap', now } end

write_when_full()
if added > 0 then
  take_more(account, budgets, hold_windows, added)
  tail = with_hold_windows(tail, budgets, hold_windows, held)
  account.reserved = account.reserved + added
  local fields = {}
  add_windows(account, fields)
  call('HSET', account_key, 'reserved', int(account.reserved), unpack(fields))
end
row = int(held + added) .. ' ' .. progress .. ' ' .. tail
local deadline = now + tonumber(lease)
call('HSET', hold_rows, id, with_deadline(row, deadline))
-- Only where Redis' clock went back.
if deadline < account.next_expiry then call('HSET', account_key, 'next_expiry', int(deadline)) end
return { 'ok', now, int(charged + held + added), int(available - added) }
