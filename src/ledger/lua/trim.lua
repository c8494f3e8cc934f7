-- Purpose: removes from the journal the entries that the archive has, and keeps their sums, so that audits stay exact.
-- KEYS: account, hold rows, journal
-- ARGV: 1 first id, 2 last id, 3 count of the entries that were archived
-- Reply: ok, now, how many were taken out | mismatch, now, how many there are

local first, last, count = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- A field that is missing says 0, too.
local function set_sum(what, amount)
  local field = 'archived_' .. what
  if amount == 0 then call('HDEL', account_key, field) else call('HSET', account_key, field, int(amount)) end
end

-- The account has rested for days: what counted in its last minute, and its open holds where none is, goes.
local function drop_counters(minute)
  local found = call('HGETALL', account_key)
  for i = 1, #found, 2 do
    local name, value = found[i], found[i + 1]
    local is_zero = value == '0' and string.sub(name, 1, #OPEN) == OPEN
    if name == 'minute' and number(value) < minute then
      call('HDEL', account_key, 'minute', 'requests', 'tokens')
    elseif is_zero then
      call('HDEL', account_key, name)
    end
  end
end

local now = now_ms()
local entries = call('XRANGE', journal, '-', last)
if #entries == 0 then return { 'ok', now, 0 } end
if #entries ~= count or entries[1][1] ~= first or entries[count][1] ~= last then
  return { 'mismatch', now, #entries }
end
local sums = call('HMGET', account_key, 'archived', 'archived_granted', 'archived_spent',
  'archived_owed', 'archived_waived', 'archived_allowance')
local archived, granted, spent = number(sums[1]), number(sums[2]), number(sums[3])
local owed, waived, allowance = number(sums[4]), number(sums[5]), number(sums[6])
for _, entry in ipairs(entries) do
  local fields = {}
  for i = 1, #entry[2], 2 do
    fields[entry[2][i]] = entry[2][i + 1]
  end
  owed = owed + number(fields.owed)
  waived = waived + number(fields.waived)
  allowance = allowance - number(fields.allowance)
  if fields.type == 'allowance' then allowance = allowance + number(fields.amount) end
  if fields.type == 'repayment' then owed = owed + number(fields.amount) end
  if fields.type == 'charge' or fields.type == 'repayment' then
    spent = spent - number(fields.amount)
  else
    granted = granted + number(fields.amount)
  end
end
write_when_full()
call('HSET', account_key, 'archived', int(archived + count), 'archived_last', last)
set_sum('granted', granted)
set_sum('spent', spent)
set_sum('owed', owed)
set_sum('waived', waived)
set_sum('allowance', allowance)
-- No entry can lie between the last one and the id with the next sequence number.
local ms, sequence = match(last, '^(%d+)%-(%d+)$')
call('XTRIM', journal, 'MINID', '=', ms .. '-' .. int(tonumber(sequence) + 1))
-- An empty stream takes 400 bytes, and only remembers its last id. A day later that is not needed: a new journal then
-- gets greater ids from Redis' time, even if the clock is some hours behind.
if now - tonumber(ms) > DAY_MS and call('XLEN', journal) == 0 then
  call('DEL', journal)
  drop_counters(math.floor(now / 60000))
end
return { 'ok', now, count }
