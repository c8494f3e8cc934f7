-- Purpose: what charges add to the usage sums, by model and key, of Redis' hour and day. Stands after the prelude. A
-- function named read_, count_ or book_ writes nothing: all checks precede all writes.
--
-- Six words are `<requests> <prompt> <cached> <completion> <cost> <waived>`. In the hash of a day, the field
-- `<model>|<key id>|all` has the six of an hour, that hour, and the six of the day's other hours. When it is written in another
-- hour, the six of its hour move into the same field of that hour's own hash, and take the place of what is there. So
-- whoever reads the day before the hours counts everything once. The fields without `|all` are those of earlier gateways,
-- which write them beside this one. See docs/decisions/0062-one-field-for-hour-and-day.md.

-- A day more than usage.ts shows of it, because a gateway's clock may be behind.
local USAGE_HOUR_SECONDS = 36 * 86400
local USAGE_DAY_SECONDS = 400 * 86400
local SIX = '%d %d %d %d %d %d'
local READ_SIX = '^(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+)$'
local READ_DAY = '^(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%d+) ([^ ]+ .*)$'

local function was_used(amount, prompt, completion)
  if amount > 0 or prompt > 0 or completion > 0 then return 1 end
  return 0
end

-- Counts only the difference to what a reaping of the same hold counted before.
local function count_usage(charge, total, prompt, cached, completion, before)
  charge.requests = was_used(total, prompt, completion)
    - was_used(before.charge, before.prompt, before.completion)
  charge.prompt = prompt - before.prompt
  charge.cached = cached - before.cached
  charge.completion = completion - before.completion
  charge.usage = int(prompt) .. ' ' .. int(cached) .. ' ' .. int(completion)
end

-- An hour of the field begins, or goes on if the clock went back, or forth again. Then `others` has its sums already.
local function read_move(usage, field, hour)
  local sums, key = usage.sums, tag .. 'usage:h' .. usage.sums[7]
  usage.moved_to, usage.moved = key, format(SIX, unpack(sums, 1, 6))
  -- Reads this key for one reason: while its slot moves, Redis must refuse the script before its first write.
  call('EXISTS', key)
  local found = { match(call('HGET', tag .. 'usage:h' .. hour, field) or '', READ_SIX) }
  local others = { match(sums[8], READ_SIX) }
  for i = 1, 6 do
    local before = number(found[i])
    others[i] = math.min(MAX_AMOUNT, number(others[i]) + sums[i] - before)
    sums[i] = before
  end
  sums[7], sums[8] = hour, format(SIX, unpack(others))
end

local function read_usage(now, field)
  local hour, day = int(math.floor(now / HOUR_MS)), tag .. 'usage:d' .. int(math.floor(now / DAY_MS))
  local usage = { day = day, sums = { match(call('HGET', day, field) or '', READ_DAY) } }
  if not usage.sums[1] then
    usage.is_new, usage.sums = true, { 0, 0, 0, 0, 0, 0, hour, '0 0 0 0 0 0' }
  elseif usage.sums[7] ~= hour then
    read_move(usage, field, hour)
  end
  return usage
end

-- By field: the holds of one reaping may add to the same one.
local usages = {}

local function book_usage(now, charge)
  if charge.paid == 0 and charge.owed == 0 and charge.waived == 0 and charge.requests == 0
    and charge.prompt == 0 and charge.completion == 0 and charge.cached == 0 then return end
  local field = charge.model .. '|' .. charge.key_id .. '|all'
  local usage = usages[field] or read_usage(now, field)
  usages[field] = usage
  local sums = usage.sums
  sums[1], sums[2] = sums[1] + charge.requests, sums[2] + charge.prompt
  sums[3], sums[4] = sums[3] + charge.cached, sums[4] + charge.completion
  sums[5] = math.min(MAX_AMOUNT, sums[5] + charge.paid + charge.owed + charge.waived)
  sums[6] = math.min(MAX_AMOUNT, sums[6] + charge.waived)
end

local function write_usages()
  for field, usage in pairs(usages) do
    if usage.moved then
      call('HSET', usage.moved_to, field, usage.moved)
      call('EXPIRE', usage.moved_to, USAGE_HOUR_SECONDS)
    end
    call('HSET', usage.day, field, format(SIX .. ' %s %s', unpack(usage.sums)))
    if usage.is_new then call('EXPIRE', usage.day, USAGE_DAY_SECONDS) end
  end
end
