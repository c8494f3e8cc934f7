-- Purpose: makes a hold for a request, after all checks in one call: the key, the model, the limits, the money. A
-- refused request does not count in the limits. In shadow mode, limits and money refuse nobody: a request that they
-- would have refused gets a hold of what is available, and does not count in the limits either.
-- KEYS: account, hold rows, journal, key
-- ARGV: 1 `<lease ms> <reaped> <renewed>`; `reaped` and `renewed` are 1 if that was done for this request before this
--         call, else 0;
--       2 scope;
--       3 `<hold id> <wanted> <min> <tokens that the limit a minute counts> <the fewest that suffice> <shares>`;
--         a hold gets at most what is available ÷ `shares`, or `min` if that is more; while the account owes something,
--         a request that wants more than 0 is refused, and a hold that is opened again or made in shadow mode gets 0;
--       4 `<1 = the plan allows the model> <requests a minute> <tokens a minute> <concurrency> <plan>`, - = no limit;
--       5 model id; 6 model percent-encoded and meta, as the hold keeps them: the meta says if this is shadow mode;
--       7 key id of a lost hold to be opened again: then neither limits nor min nor a key are checked; else '';
--       8 `<tokens> <every> <1 = the rest of the last one stays>` of the plan's allowance, or `- - 0`, and then
--         `<start> <end>` of the day, the week and the month that allowances and budgets go by, in ms
-- Reply: ok, now, limit of requests, remaining, limit of tokens, remaining (-1 = none), granted amount, charged before,
--          account id, plan, key id, what the account owes,
--          the lower token limit of account and key (-1 = none): no more than this was counted;
--          the error code with which shadow mode would have refused, else '';
--          what was available before this hold; 1 = the key has limits of requests or tokens of its own; the account's
--          name, last because its text is the least bounded; packed
--      | reap, now: reap.lua has to be called first | renew, now: renew.lua has to be called first
--      | plan, now, actual | windows, now: Redis' time is outside the window of ARGV 8 that is needed
--      | <error code>, now, limit of requests, remaining, limit of tokens, remaining, which, available,
--          account id, key id, what the account owes, the lower token limit, when the budget is renewed (0 = it is
--          not a budget), 1 = something is held. For an unknown key: <error code>, now, and no more.
--          invalid_parameter: even the fewest tokens exceed the lower token limit

local MINUTE_MS = 60000
local key_key = KEYS[4]
local lease, reaped, renewed = match(ARGV[1], '^(%d+) (%d) (%d)$')
local scope, model, tail, reopened_key, offer = ARGV[2], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local id, wanted, min, tokens, fewest, shares = match(ARGV[3], '^(%S+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
local allowed, rpm, tpm, concurrency, plan = match(ARGV[4], '^(%d) (%S+) (%S+) (%S+) (.*)$')
local is_reopening = reopened_key ~= ''
wanted, min, tokens, fewest = number(wanted), number(min), number(tokens), number(fewest)
shares, rpm, tpm, concurrency = number(shares), tonumber(rpm), tonumber(tpm), tonumber(concurrency)

local now = now_ms()
local key
if is_reopening then
  local found = call('HMGET', key_key, 'budget', 'budget_of')
  key = { id = reopened_key, models = '*', budget = found[1], budget_of = found[2] }
else
  key = read_key(key_key)
end
local account, name, status, actual_plan, last_minute, requests_used, tokens_used, budget, open_of_key =
  read_account('name', 'status', 'plan', 'minute', 'requests', 'tokens', 'budget', OPEN .. (key.id or ''))
account.plan, account.budget = actual_plan or 'default', budget
if not account.id or not key.id then return { 'invalid_api_key', now } end
if not is_reopening and account.plan ~= plan then return { 'plan', now, account.plan } end

-- What account and key have used in this minute.
local minute = math.floor(now / MINUTE_MS)
local is_same_minute = number(last_minute) == minute
requests_used, tokens_used, open_of_key = number(requests_used), number(tokens_used), number(open_of_key)
if not is_same_minute then requests_used, tokens_used = 0, 0 end
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
  local request_limit, requests_left = tighter(rpm, requests_used, key.rpm, key.requests)
  local token_limit, tokens_left = tighter(tpm, tokens_used, key.tpm, key.tokens)
  return { word, now, int(request_limit), int(requests_left), int(token_limit), int(tokens_left), ... }
end

-- A request that wants more tokens than a whole minute may have would be refused in every minute. So if fewer tokens
-- suffice for it, it counts as exactly what a minute may have.
local most_tokens = math.min(tpm or math.huge, key.tpm or math.huge)
local counted = math.min(tokens, math.max(fewest, most_tokens))
local has_limits = (key.rpm or key.tpm) and 1 or 0
local most_in_reply = int(most_tokens < math.huge and most_tokens or -1)

local function refuse(word, which, available, renews_at)
  return answer(word, which, int(available), account.id, key.id, int(account.owed), most_in_reply, int(renews_at),
    account.reserved > 0 and 1 or 0)
end

local function grant(amount, charged, would_refuse, available)
  return packed(answer('ok', int(amount), int(charged), account.id, account.plan, key.id,
    int(account.owed), most_in_reply, would_refuse, int(available), has_limits, name or ''))
end

-- A request that is refused for another reason than limits and money makes Redis neither reap nor renew.
local mark = call('HGET', settled_of(id), id)
local denial = nil
if not is_reopening then
  denial = find_refusal(status, key, scope, now)
  if not denial and (allowed ~= '1' or not listed(model, key.models)) then denial = 'model_not_allowed' end
  if not denial and (mark or now - made_at(id) > DAY_MS) then denial = 'released' end
elseif status == 'suspended' then
  denial = 'account_suspended'
elseif mark and string.sub(mark, 1, 1) == 's' then
  denial = 'released'
end
if denial then return refuse(denial, '', 0, 0) end
if reaped == '0' and has_expired(account, now, lease) then return { 'reap', now } end
if renewed == '0' and not is_reopening and needs_renewal(account, offer, now) then return { 'renew', now } end
local budgets = find_budgets(account, key, offer, now)
if not budgets then return { 'windows', now } end
local available_to_all = available_of(account)
if not is_reopening then available_to_all = available_to_all - withdrawn(account, offer) end
local available = math.min(available_to_all, budgets.left)

-- What the request lacks, as an error code, or nil: a limit is reached, or there is too little money. `which` names the
-- limit or the budget, and `renews_at` says when the budget is renewed.
local short, which, renews_at = nil, '', 0
if is_reopening then
  -- A hold that is opened again was admitted before.
elseif counted > most_tokens then
  short = 'invalid_parameter'
elseif (rpm and requests_used + 1 > rpm) or (key.rpm and key.requests + 1 > key.rpm) then
  short, which = 'rate_limit_exceeded', 'requests'
elseif (tpm and tokens_used + counted > tpm) or (key.tpm and key.tokens + counted > key.tpm) then
  short, which = 'rate_limit_exceeded', 'tokens'
elseif (concurrency and account.open + 1 > concurrency)
  or (key.concurrency and open_of_key + 1 > key.concurrency) then
  short = 'concurrency_limit_exceeded'
elseif available_to_all < min or (account.owed > 0 and wanted > 0) then
  short = 'insufficient_balance'
elseif budgets.left < min then
  short = 'budget_exceeded'
  -- If both budgets are used up, the request has to wait for the one that is renewed later.
  for _, one in ipairs(budgets.all) do
    if one.left < min and one.window.ends > renews_at then which, renews_at = one.who, one.window.ends end
  end
end

-- What becomes of the request, in one word:
--   reopened: it was admitted before, and lacks nothing;
--   granted: it lacks nothing;
--   kept: it lacks something now, but an earlier call has made its hold;
--   excused: it lacks something, but shadow mode refuses nobody;
--   refused: it lacks something.
-- Hardly any request is sent twice. So only before a refusal or one more reaping, HEXISTS asks for the hold of an earlier
-- call; for the others, HSETNX finds that hold below.
local outcome = 'granted'
if is_reopening then
  outcome = 'reopened'
elseif short and call('HEXISTS', hold_rows, id) == 1 then
  outcome = 'kept'
elseif short and string.find(tail, SHADOW, 1, true) then
  outcome = 'excused'
elseif short then
  outcome = 'refused'
end

local charged = number(match(mark or '', '^r (%d+)'))
if is_reopening then wanted = math.max(0, wanted - charged) end
local amount = math.min(wanted, available, math.max(min, math.floor(available / shares)))
-- The expired holds that are left may have what this one needs. But a hold that is open already keeps its amount.
if reaped == '1' and outcome ~= 'kept' and has_expired(account, now, lease) then
  local may_help = short == 'insufficient_balance' or short == 'budget_exceeded'
    or short == 'concurrency_limit_exceeded'
  local gets_less = outcome ~= 'refused' and amount < wanted
  if may_help or (gets_less and call('HEXISTS', hold_rows, id) == 0) then return { 'reap', now } end
end
if outcome == 'refused' then return refuse(short, which, available, renews_at) end
if not is_reopening then touch_key(key_key, key, now) end

take_budgets(account, budgets, amount)
local deadline = now + tonumber(lease)
local row = int(amount) .. ' 0 0 0 0 ' .. key.id .. ' ' .. with_hold_windows(tail, budgets, nil, 0)
if call('HSETNX', hold_rows, id, with_deadline(row, deadline)) == 0 then
  local held = number(match(call('HGET', hold_rows, id), '^%d+'))
  return grant(held, charged, '', available + held)
end

account.reserved = account.reserved + amount
local fields = { 'open', int(account.open + 1), OPEN .. key.id, int(open_of_key + 1) }
if deadline < account.next_expiry then add_field(fields, 'next_expiry', int(deadline)) end
if outcome == 'granted' then
  requests_used, tokens_used = requests_used + 1, tokens_used + counted
  key.requests, key.tokens = key.requests + 1, key.tokens + counted
  add_field(fields, 'requests', int(requests_used))
  add_field(fields, 'tokens', int(tokens_used))
  if not is_same_minute then add_field(fields, 'minute', int(minute)) end
  if has_limits == 1 then
    call('HSET', key_key, 'minute', int(minute), 'requests', int(key.requests),
      'tokens', int(key.tokens))
  end
end
add_windows(account, fields)
call('HSET', account_key, 'reserved', int(account.reserved), unpack(fields))
return grant(amount, charged, outcome == 'excused' and short or '', available)
