-- Purpose: what charges add to the usage sums, by model and key, of Redis' hour and day. Stands after the prelude. A
-- function named read_ or count_ writes nothing: all checks precede all writes.

local USAGE_HOUR_SECONDS = 35 * 86400
local USAGE_DAY_SECONDS = 400 * 86400

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

-- The keys of the usage sums of Redis' current hour and day.
local function usage_keys(now)
  return tag .. format('usage:h%d', math.floor(now / HOUR_MS)),
    tag .. format('usage:d%d', math.floor(now / DAY_MS))
end

-- Reads what the sums have for the charge's model and key, if the charge adds anything. One field has
-- `<requests> <prompt> <cached> <completion> <cost>`: five fields would take twice the calls.
local function read_usage(hour, day, charge)
  if charge.paid == 0 and charge.owed == 0 and charge.waived == 0 and charge.requests == 0
    and charge.prompt == 0 and charge.completion == 0 and charge.cached == 0 then return end
  charge.field = charge.model .. '|' .. charge.key_id
  charge.of_hour, charge.of_day = call('HGET', hour, charge.field), call('HGET', day, charge.field)
end

local function write_sum(key, seconds, charge, found)
  local requests, prompt, cached, completion, cost =
    match(found or '', '^(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+)$')
  if not requests then requests, prompt, cached, completion, cost = 0, 0, 0, 0, 0 end
  call('HSET', key, charge.field, format('%d %d %d %d %d', requests + charge.requests,
    prompt + charge.prompt, cached + charge.cached, completion + charge.completion,
    math.min(MAX_AMOUNT, cost + charge.paid + charge.owed + charge.waived)))
  -- In a field of its own: a gateway from before shadow mode would start the sums again at 0 if they had a sixth word.
  if charge.waived ~= 0 then
    local field = charge.field .. '|waived'
    local waived = number(match(call('HGET', key, field) or '', '%-?%d+$'))
    call('HSET', key, field, '0 0 0 0 0 ' .. int(math.min(MAX_AMOUNT, waived + charge.waived)))
  end
  if not found then call('EXPIRE', key, seconds) end
end

local function write_usage(hour, day, charge)
  if not charge.field then return end
  write_sum(hour, USAGE_HOUR_SECONDS, charge, charge.of_hour)
  write_sum(day, USAGE_DAY_SECONDS, charge, charge.of_day)
end
