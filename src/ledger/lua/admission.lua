-- Purpose: reads and checks the key of a request, and tells whether the allowance has to be renewed first. All of this
-- writes nothing, except that `touch_key` notes when the key was used.

local function read_key(key)
  local found = call('HMGET', key, 'id', 'scopes', 'models', 'expires_at', 'revoked_at',
    'last_used_at', 'rpm', 'tpm', 'concurrency', 'minute', 'requests', 'tokens', 'budget', 'budget_of')
  return {
    id = found[1], scopes = found[2] or '', models = found[3] or '*',
    expires_at = tonumber(found[4] or ''), revoked_at = tonumber(found[5] or ''),
    last_used_at = number(found[6]), rpm = tonumber(found[7] or ''), tpm = tonumber(found[8] or ''),
    concurrency = tonumber(found[9] or ''), minute = number(found[10]),
    requests = number(found[11]), tokens = number(found[12]),
    budget = found[13], budget_of = found[14],
  }
end

local function listed(word, words)
  return words == '*' or string.find(' ' .. words .. ' ', ' ' .. word .. ' ', 1, true) ~= nil
end

-- Why this caller is refused, or nil.
local function find_refusal(status, key, scope, now)
  local seconds = now / 1000
  if key.revoked_at and key.revoked_at <= seconds then return 'api_key_revoked' end
  if key.expires_at and key.expires_at <= seconds then return 'api_key_expired' end
  if scope ~= '' and not listed(scope, key.scopes) then return 'insufficient_scope' end
  if status == 'suspended' then return 'account_suspended' end
  return nil
end

-- Notes when the key was used. By pcall, so that the script goes on when Redis' memory is full and refuses this write.
local function touch_key(key_name, key, now)
  local seconds = math.floor(now / 1000)
  if seconds - key.last_used_at >= 60 then
    redis.pcall('HSET', key_name, 'last_used_at', int(seconds))
  end
end

-- Whether renew.lua has something to do. A call of renew.lua that changes nothing would cost the request two round trips.
local function needs_renewal(account, offer, now)
  local tokens = tonumber(match(offer, '^%d+'))
  local left, used, ends, plan = match(account.allowance_text or '', '^(%d+) (%d+) (%d+) (.*)$')
  -- There is no allowance yet: it begins if the plan gives one.
  if not left then return tokens ~= nil end
  local is_over = now >= tonumber(ends)
  if not is_over and plan == account.plan then return false end
  local may_take = available_of(account) > 0
  -- The plan gives none any more: what is left is taken back, as far as no open hold has reserved it.
  if not tokens then return left ~= '0' and may_take end
  if is_over or plan ~= '' then return true end
  -- Where open holds keep renew.lua from taking back all that it should, it writes '' as the allowance's plan. It is called
  -- again when it can take something, or has something to give.
  return may_take or tokens - tonumber(used) > tonumber(left)
end

-- The part of what is available that the next renew.lua will take back, because holds have freed it since the last one.
-- Nobody may get that. With rollover (`keeps`), nothing is taken back.
local function withdrawn(account, offer)
  local left, used, plan = match(account.allowance_text or '', '^(%d+) (%d+) %d+ (.*)$')
  if not left or plan == account.plan then return 0 end
  local tokens, keeps = match(offer, '^(%S+) %S+ (%d)')
  if keeps == '1' then return 0 end
  local target = math.max(0, (tonumber(tokens) or 0) - tonumber(used))
  return math.max(0, math.min(tonumber(left) - target, available_of(account)))
end
