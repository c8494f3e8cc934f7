-- Purpose: makes a hold for a request, after all checks in one call: the key, the model, the limits, the money. A
-- refused request does not count in the limits. In shadow mode, limits and money refuse nobody: a request that they would
-- have refused gets a hold of what is available, and does not count in the limits either.
-- KEYS: account, hold leases, hold rows, journal, key
-- ARGV: 1 `<lease ms> <reaped> <renewed>`: what this request has caused before this call. `reaped` = which of the expired
--         holds are reaped: `0` none `1` some `2` all. `renewed` = `1` if the allowance was renewed, else `0`;
--       2 scope;
--       3 `<hold id> <wanted> <min> <tokens for the limit> <the fewest that suffice> <shares>`; while the account owes
--         something, only 0 is granted; beyond `min`, a hold takes no more than a share of what is available;
--       4 `<1 = the plan allows the model> <requests a minute> <tokens a minute> <concurrency> <plan>`, - = no limit;
--       5 model id; 6 model percent-encoded and meta, as the hold keeps them: the meta says whether this is shadow mode;
--       7 key id of a lost hold to be opened again: then neither limits nor min nor a key are checked; else '';
--       8 `<tokens> <every> <1 = the rest of the last one stays>` of the plan's allowance, or `- - 0`, and then
--         `<start> <end>` of the day, the week and the month that allowances and budgets go by, in ms
-- Reply: ok, now, limit of requests, remaining, limit of tokens, remaining (-1 = none), granted amount, charged before,
--          account id, name, plan, key id, what the account owes,
--          the lower token limit of account and key (-1 = none): no more than this was counted;
--          the error code with which shadow mode would have refused, else '';
--          what was available before this hold; 1 = the key has limits of requests or tokens of its own
--      | reap, now: reap.lua has to be called first | renew, now: renew.lua has to be called first
--      | plan, now, actual | clock, now: Redis' time is not in the window of 8 that is needed
--      | <error code>, now, limit of requests, remaining, limit of tokens, remaining, which, available,
--          account id, key id, what the account owes, the lower token limit, when the budget is renewed (0 = it is
--          not a budget), 1 = something is held. For an unknown key: <error code>, now, and no more.
--          invalid_parameter: even the fewest tokens exceed the lower token limit

local key_key = KEYS[5]
local lease, reaped, renewed = match(ARGV[1], '^(%d+) (%d) (%d)$')
local scope, model, tail, reopened_key, offer = ARGV[2], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local id, wanted, min, tokens, fewest, shares = match(ARGV[3], '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
local allowed, rpm, tpm, concurrency, plan = match(ARGV[4], '^(%d) (%S+) (%S+) (%S+) (.*)$')
local is_reopening = reopened_key ~= ''
wanted, min, tokens, fewest = number(wanted), number(min), number(tokens), number(fewest)
shares, lease = number(shares), number(lease)

local now = now_ms()
local key
if is_reopening then
  local found = call('HMGET', key_key, 'budget', 'budget_of')
  key = { id = reopened_key, models = '*', budget = found[1], budget_of = found[2] }
else
  key = read_key(key_key)
end
local account = read_account(key.id)
if not account.id or not key.id then return { 'invalid_api_key', now } end
if not is_reopening and account.plan ~= plan then return { 'plan', now, account.plan } end

local minute = math.floor(now / MINUTE_MS)
if account.minute ~= minute then account.requests, account.tokens = 0, 0 end
if key.minute ~= minute then key.requests, key.tokens = 0, 0 end

-- Returns the tighter limit of account and key, and what is left of it.
local function tighter(of_account, used_by_account, of_key, used_by_key)
  local a = of_account and of_account - used_by_account
  local k = of_key and of_key - used_by_key
  if a and (not k or a <= k) then return of_account, math.max(0, a) end
  if k then return of_key, math.max(0, k) end
  return -1, -1
end

local function answer(word, ...)
  local request_limit, requests_left =
    tighter(tonumber(rpm), account.requests, key.rpm, key.requests)
  local token_limit, tokens_left = tighter(tonumber(tpm), account.tokens, key.tpm, key.tokens)
  return { word, now, request_limit, requests_left, token_limit, tokens_left, ... }
end

local function over(used, limit)
  return limit ~= nil and used > limit
end

-- A request that needs more than the limit by itself would be refused in every minute. So it counts as the limit, if the
-- fewest tokens that suffice are not more than that.
local most_tokens = math.min(tonumber(tpm) or math.huge, key.tpm or math.huge)
local counted = math.min(tokens, math.max(fewest, most_tokens))
local has_limits = (key.rpm or key.tpm) and 1 or 0
local shown_most = most_tokens < math.huge and most_tokens or -1

-- Returns the error code and the name of the first limit that is reached, or nil.
local function find_limit()
  if counted > most_tokens then return 'invalid_parameter', 'tokens' end
  if over(account.requests + 1, tonumber(rpm)) or over(key.requests + 1, key.rpm) then
    return 'rate_limit_exceeded', 'requests'
  end
  if over(account.tokens + counted, tonumber(tpm)) or over(key.tokens + counted, key.tpm) then
    return 'rate_limit_exceeded', 'tokens'
  end
  if concurrency ~= '-' then
    if over(call('HLEN', hold_rows) + 1, tonumber(concurrency)) then return 'concurrency_limit_exceeded', 'account' end
  end
  if over(account.open_of_key + 1, key.concurrency) then return 'concurrency_limit_exceeded', 'key' end
  return nil
end

local mark = call('HGET', settled_of(id), id)
local before = read_reaped(mark)

-- Whether an earlier call has made this hold. Hardly any request is sent twice, so this is read only before a refusal; for
-- the others, HSETNX tells it below.
local function is_open()
  return call('HEXISTS', hold_rows, id) == 1
end

-- Returns the error code of a refusal for another reason than limits and money, or nil.
local function find_denial()
  if is_reopening then
    if account.status == 'suspended' then return 'account_suspended' end
    if mark and string.sub(mark, 1, 1) == 's' then return 'released' end
    return nil
  end
  local refusal = find_refusal(account, key, scope, now)
  if refusal then return refusal end
  if allowed ~= '1' or not listed(model, key.models) then return 'model_not_allowed' end
  if mark or now - made_at(id) > DAY_MS then return 'released' end
  return nil
end

local denial = find_denial()
local available, budgets = 0, NO_BUDGETS
-- A caller who is refused for another reason than limits and money does not make Redis reap or renew.
if not denial then
  if reaped == '0' and has_expired(now, lease) then return { 'reap', now } end
  if renewed == '0' and not is_reopening and needs_renewal(account, offer, now) then return { 'renew', now } end
  budgets = find_budgets(account, key, offer, now)
  if not budgets then return { 'clock', now } end
  available = math.min(available_of(account), budgets.left)
end
local renews_at = 0

-- Returns the error code of what the request has too little of, and what that is, or nil.
local function find_shortage()
  if is_reopening then return nil end
  local limit, reached = find_limit()
  if limit then return limit, reached end
  if available_of(account) < min or (account.owed > 0 and wanted > 0) then
    return 'insufficient_balance', account.reserved > 0 and 'held' or 'balance'
  end
  -- If both budgets are used up, the request has to wait for the one that is renewed later.
  local used_up = nil
  for _, budget in ipairs(budgets.all) do
    local is_later = not used_up or budget.window.ends > used_up.window.ends
    if budget.left < min and is_later then used_up = budget end
  end
  if not used_up then return nil end
  renews_at = used_up.window.ends
  return 'budget_exceeded', used_up.who
end

local short, which = nil, ''
if not denial then short, which = find_shortage() end
if short and is_open() then short = nil end
local is_excused = short ~= nil and is_shadow(tail)
local refused = denial
if not is_excused then refused = denial or short end
if is_reopening then wanted = math.max(0, wanted - before.charge) end
local amount = math.min(wanted, available, math.max(min, math.floor(available / shares)))
local reaping_may_help = short == 'insufficient_balance' or short == 'budget_exceeded'
  or short == 'concurrency_limit_exceeded'
local gets_less = not refused and amount < wanted
-- The expired holds that are left may have what this one needs.
if reaped == '1' and (reaping_may_help or gets_less) and not is_open() then return { 'reap', now } end

if refused then
  return answer(refused, which, int(available), account.id, key.id, int(account.owed), shown_most,
    int(renews_at), account.reserved > 0 and 1 or 0)
end
if not is_reopening then touch_key(key_key, key, now) end

take_budgets(account, budgets, amount)
local row = int(amount) .. ' 0 0 0 0 ' .. key.id .. ' ' .. with_hold_windows(tail, budgets, nil, 0)
if call('HSETNX', hold_rows, id, row) == 0 then
  local held = number(match(call('HGET', hold_rows, id), '^%d+'))
  return answer('ok', int(held), int(before.charge), account.id, account.name, account.plan, key.id,
    int(account.owed), shown_most, '', int(available + held), has_limits)
end

account.reserved = account.reserved + amount
local windows = changed_fields(account)
local open_holds = int(account.open_of_key + 1)
if is_reopening or is_excused then
  call('HSET', account_key, 'reserved', int(account.reserved), open_field(key.id), open_holds,
    unpack(windows))
else
  account.requests, account.tokens = account.requests + 1, account.tokens + counted
  key.requests, key.tokens = key.requests + 1, key.tokens + counted
  call('HSET', account_key, 'reserved', int(account.reserved), 'minute', int(minute),
    'requests', int(account.requests), 'tokens', int(account.tokens), open_field(key.id), open_holds,
    unpack(windows))
  if has_limits == 1 then
    call('HSET', key_key, 'minute', int(minute), 'requests', int(key.requests),
      'tokens', int(key.tokens))
  end
end
call('ZADD', hold_leases, int(now + lease), id)
return answer('ok', int(amount), int(before.charge), account.id, account.name, account.plan, key.id,
  int(account.owed), shown_most, is_excused and short or '', int(available), has_limits)
