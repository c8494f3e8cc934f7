-- Purpose: functions shared by the scripts; scripts.ts puts this text in front of each.
-- Everything here that is named read_, find_ or book_ writes nothing: all checks precede all writes.
-- Amounts are integers up to 2^53-1: doubles hold them exactly, `..` and tostring would not print them, and the
-- client's parser of integer replies is off by one near the top: amounts are answered as text by int().

local HOUR_MS = 3600000
local DAY_MS = 86400000
local MINUTE_MS = 60000
local MAX_AMOUNT = 9007199254740991
local REAP_AT_ONCE = 100
local MARK_SECONDS = 90000
local USAGE_HOUR_SECONDS = 35 * 86400
local USAGE_DAY_SECONDS = 400 * 86400

local function int(n)
  return string.format('%d', n)
end

-- A missing or empty field counts as 0.
local function number(text)
  return tonumber(text or 0) or 0
end

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function hour_of(ms)
  return int(math.floor(ms / HOUR_MS))
end

-- A hold id is a UUIDv7 in hex: its first 12 digits are its time.
local function made_at(hold_id)
  return tonumber(string.sub(hold_id, 1, 12), 16)
end

-- `<usage hour> <lease ms> <hour of the first settled key> <of the second> …`
local function read_times(text, first_settled)
  local parts, settled = {}, {}
  for part in string.gmatch(text, '%d+') do
    parts[#parts + 1] = part
  end
  for i = 3, #parts do
    settled[parts[i]] = KEYS[first_settled + i - 3]
  end
  return parts[1], tonumber(parts[2]), settled
end

local function read_account(key)
  local found = redis.call('HMGET', key, 'id', 'name', 'status', 'plan', 'granted', 'spent',
    'reserved', 'minute', 'requests', 'tokens')
  return {
    id = found[1], name = found[2] or '', status = found[3], plan = found[4] or 'default',
    granted = number(found[5]), spent = number(found[6]), reserved = number(found[7]),
    minute = number(found[8]), requests = number(found[9]), tokens = number(found[10]),
  }
end

local function read_key(key)
  local found = redis.call('HMGET', key, 'id', 'scopes', 'models', 'expires_at', 'revoked_at',
    'last_used_at', 'rpm', 'tpm', 'concurrency', 'minute', 'requests', 'tokens')
  return {
    id = found[1], scopes = found[2] or '', models = found[3] or '*',
    expires_at = tonumber(found[4] or ''), revoked_at = tonumber(found[5] or ''),
    last_used_at = number(found[6]), rpm = tonumber(found[7] or ''), tpm = tonumber(found[8] or ''),
    concurrency = tonumber(found[9] or ''), minute = number(found[10]),
    requests = number(found[11]), tokens = number(found[12]),
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

local function touch_key(key_name, key, now)
  local seconds = math.floor(now / 1000)
  if seconds - key.last_used_at >= 60 then
    redis.call('HSET', key_name, 'last_used_at', int(seconds))
  end
end

-- Puts a charge into the sums that were read; write_charge and write_sums store it.
-- What follows a reaping's charge is an adjustment, so a request has one charge whatever happens.
local function book_charge(account, charge)
  if charge.prior > 0 and account.granted - charge.delta <= MAX_AMOUNT then
    charge.kind = 'adjustment'
    account.granted = account.granted - charge.delta
  else
    charge.kind = 'charge'
    account.spent = account.spent + charge.delta
  end
  charge.balance = account.granted - account.spent
end

local function was_used(amount, prompt, completion)
  if amount > 0 or prompt > 0 or completion > 0 then return 1 end
  return 0
end

-- The difference to what a reaping counted before.
local function count_usage(charge, total, prompt, cached, completion, before)
  charge.requests = was_used(total, prompt, completion)
    - was_used(before.charge, before.prompt, before.completion)
  charge.prompt = prompt - before.prompt
  charge.cached = cached - before.cached
  charge.completion = completion - before.completion
  charge.usage = int(prompt) .. ' ' .. int(cached) .. ' ' .. int(completion)
end

local function write_usage(key, seconds, charge)
  local prefix = charge.model .. '|' .. charge.key_id .. '|'
  local requests = redis.call('HINCRBY', key, prefix .. 'requests', charge.requests)
  if charge.prompt ~= 0 then redis.call('HINCRBY', key, prefix .. 'prompt', charge.prompt) end
  if charge.cached ~= 0 then redis.call('HINCRBY', key, prefix .. 'cached', charge.cached) end
  if charge.completion ~= 0 then
    redis.call('HINCRBY', key, prefix .. 'completion', charge.completion)
  end
  if charge.delta ~= 0 then redis.call('HINCRBY', key, prefix .. 'cost', charge.delta) end
  if requests <= 1 then redis.call('EXPIRE', key, seconds) end
end

-- An entry of amount 0 only where there was a shortfall: that must not vanish.
local function write_charge(journal, usage_hour, usage_day, charge)
  if charge.delta ~= 0 or charge.shortfall > 0 then
    redis.call('XADD', journal, '*', 'type', charge.kind, 'amount', int(-charge.delta),
      'balance', int(charge.balance), 'hold', charge.id, 'model', charge.model,
      'key', charge.key_id, 'usage', charge.usage, 'flags', charge.flags,
      'shortfall', int(charge.shortfall), 'meta', charge.meta)
  end
  if charge.delta ~= 0 or charge.requests ~= 0 or charge.prompt ~= 0
    or charge.completion ~= 0 or charge.cached ~= 0 then
    write_usage(usage_hour, USAGE_HOUR_SECONDS, charge)
    write_usage(usage_day, USAGE_DAY_SECONDS, charge)
  end
end

local function write_sums(key, account)
  redis.call('HSET', key, 'granted', int(account.granted), 'spent', int(account.spent),
    'reserved', int(account.reserved))
end

local NOTHING_BEFORE = { charge = 0, prompt = 0, cached = 0, completion = 0 }

-- A mark: `s <charge> <shortfall>` (settled) or `r <charge> <prompt> <cached> <completion>` (reaped).
local function read_reaped(mark)
  if not mark then return NOTHING_BEFORE end
  local charge, prompt, cached, completion = string.match(mark, '^r (%d+) (%d+) (%d+) (%d+)$')
  return {
    charge = number(charge), prompt = number(prompt),
    cached = number(cached), completion = number(completion),
  }
end

local function uptime_ms()
  return number(string.match(redis.call('INFO', 'server'), 'uptime_in_seconds:(%d+)')) * 1000
end

local function book_reaping(account, id, value, mark)
  local amount, total, prompt, cached, completion, key_id, model, meta =
    string.match(value, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (.*)$')
  local before = read_reaped(mark)
  local delta = math.max(0, math.min(number(total) - before.charge, number(amount)))
  local charge = {
    id = id, prior = before.charge, delta = delta, shortfall = 0, model = model, key_id = key_id,
    flags = 'e', meta = meta,
  }
  account.reserved = account.reserved - number(amount)
  book_charge(account, charge)
  count_usage(charge, before.charge + delta, number(prompt), number(cached), number(completion), before)
  charge.mark = 'r ' .. int(before.charge + delta) .. ' ' .. charge.usage
  return charge
end

-- Expired holds, at most 100, already booked in `account`. `missing`: hours whose settled keys were
-- not declared. A Redis that was just started reaps nobody: its gateways had no chance to renew.
local function find_expired(account, holds, open, settled, now, lease)
  local ids = redis.call('ZRANGEBYSCORE', holds, '-inf', int(now), 'LIMIT', 0, REAP_AT_ONCE + 1)
  local reap = { charges = {}, missing = {}, by_key = {}, more = false }
  if #ids == 0 or uptime_ms() < lease then return reap end
  reap.more = #ids > REAP_AT_ONCE
  if reap.more then ids[#ids] = nil end
  local values = redis.call('HMGET', open, unpack(ids))
  for i, id in ipairs(ids) do
    local hour = hour_of(made_at(id))
    local key = settled[hour]
    if key then
      local charge = book_reaping(account, id, values[i], redis.call('HGET', key, id))
      charge.settled = key
      reap.charges[i] = charge
      reap.by_key[charge.key_id] = (reap.by_key[charge.key_id] or 0) + 1
    else
      reap.missing[hour] = true
    end
  end
  return reap
end

-- The answer that asks for more keys, or nil.
local function ask_hours(reap, now)
  if next(reap.missing) == nil then return nil end
  local answer = { 'hours', now }
  for hour in pairs(reap.missing) do
    answer[#answer + 1] = hour
  end
  return answer
end

local function write_reaping(account_key, account, holds, open, journal, usage_hour, usage_day, reap)
  if #reap.charges == 0 then return end
  for _, charge in ipairs(reap.charges) do
    redis.call('ZREM', holds, charge.id)
    redis.call('HDEL', open, charge.id)
    redis.call('HSET', charge.settled, charge.id, charge.mark)
    redis.call('EXPIRE', charge.settled, MARK_SECONDS)
    redis.call('HINCRBY', account_key, 'open:' .. charge.key_id, -1)
    write_charge(journal, usage_hour, usage_day, charge)
  end
  write_sums(account_key, account)
end
