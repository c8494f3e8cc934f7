-- Purpose: checks a key, and reads what its account has, after one reaping at most. Or only looks at an account, for the
-- operator, the account page or a key that was checked before: after all expired holds were reaped, and the allowance was
-- brought up to date, unless the account is suspended.
-- KEYS: account, hold rows, journal, key (a look may name the one whose budget is wanted)
-- ARGV: 1 `<lease ms> <reaped> <renewed>`, as ARGV 1 of admit is; 2 scope, '' = any;
--       3 for a look, the plan that the account was on, else ''; 4 for a look, the same as ARGV 8 of admit; '' for a
--         caller, whose key is then checked
-- Reply: ok, now, account id, name, plan, key id, key's models, granted, spent, reserved, owed,
--          the key's own limit of tokens a minute (-1 = none),
--          and as the row has them, or '': allowance, budget, its window;
--          for a look, the key's budget and its window, else ''
--      | reap, now: reap.lua has to be called first | renew, now: renew.lua has to be called first
--      | plan, now, actual | <error code>, now, account id, key id (an unknown key or account has neither)

local key_key = KEYS[4]
local lease, reaped, renewed = match(ARGV[1], '^(%d+) (%d) (%d)$')
local scope, plan, offer = ARGV[2], ARGV[3], ARGV[4]
local is_look = offer ~= ''

local now = now_ms()
local account, name, status, actual_plan, budget, window =
  read_account('name', 'status', 'plan', 'budget', 'window')
account.plan = actual_plan or 'default'
local key = is_look and { models = '*' } or read_key(key_key)
if not account.id and is_look then return { 'account_not_found', now } end
if not account.id or (not is_look and not key.id) then return { 'invalid_api_key', now } end
if is_look and account.plan ~= plan then return { 'plan', now, account.plan } end
local refusal = not is_look and find_refusal(status, key, scope, now)
if refusal then return { refusal, now, account.id, key.id } end
-- A caller waits for one reaping at most, and for none if nothing is reserved: the holds of free models are left to the next
-- request that makes a hold. A look shows the account without any expired hold.
local may_reap = is_look or (reaped == '0' and account.reserved > 0)
if may_reap and has_expired(account, now, lease) then return { 'reap', now } end
if is_look and renewed == '0' and status ~= 'suspended' and needs_renewal(account, offer, now) then
  return { 'renew', now }
end

local key_budget, key_window = '', ''
if is_look then
  local found = call('HMGET', key_key, 'id', 'budget', 'budget_of')
  local field = field_of({ id = found[1], budget = found[2], budget_of = found[3] })
  if field then key_budget, key_window = found[2], call('HGET', account_key, field) or '' end
else
  touch_key(key_key, key, now)
end
return {
  'ok', now, account.id, name or '', account.plan, key.id or '', key.models,
  int(account.granted), int(account.spent), int(account.reserved), int(account.owed),
  key.tpm or -1, account.allowance_text or '', budget or '', window or '', key_budget, key_window,
}
