-- Purpose: checks a key, and reads what its account has. Reaps expired holds on the way.
-- KEYS: account, hold leases, hold rows, journal, key (the operator may name the one whose budget is wanted)
-- ARGV: 1 lease ms; 2 scope, '' = any;
--       3 '' = a caller asks: the key is checked; `=<plan that the account was on>` = the operator asks: no key is
--         checked, and an allowance whose window has ended is renewed;
--       4 if the operator asks, what ARGV 8 of admit is; else ''
-- Reply: ok, now, reaped, account id, name, plan, key id, key's models, granted, spent, reserved, owed, status,
--          the key's own limit of tokens a minute (-1 = none), and as the row has them or '': allowance, budget, its window;
--          the key's budget and its window, or '': only if the operator asks
--      | plan, now, actual | clock, now: Redis' time is not in the window of 4 that is needed
--      | again, now, reaped | <error code>, now, reaped, account id, key id (an unknown key has neither)

local key_key, lease = KEYS[5], tonumber(ARGV[1])
local scope, is_operator, plan, offer = ARGV[2], ARGV[3] ~= '', string.sub(ARGV[3], 2), ARGV[4]

local now = now_ms()
local account = read_account()
local key = is_operator and { models = '*' } or read_key(key_key)
if not account.id and is_operator then return { 'account_not_found', now, 0 } end
if not account.id or (not is_operator and not key.id) then return { 'invalid_api_key', now, 0 } end
if is_operator and account.plan ~= plan then return { 'plan', now, account.plan } end

local reap = find_expired(account, now, lease)
local key_budget, key_window = '', nil
if is_operator then
  local found = call('HMGET', key_key, 'id', 'budget', 'budget_of')
  local field = field_of({ id = found[1], budget = found[2], budget_of = found[3] })
  if field then key_budget, key_window = found[2], read_window(account, field) end
end
local refusal = not is_operator and find_refusal(account, key, scope, now)
local renewal = nil
if is_operator and account.status ~= 'suspended' then
  renewal = find_renewal(account, offer, now)
  if renewal == 'clock' then return { 'clock', now } end
  if renewal then book_renewal(account, renewal) end
end

write_reaping(account, reap)
write_renewal(account, renewal)
if refusal then return { refusal, now, #reap.charges, account.id, key.id } end
if not is_operator then touch_key(key_key, key, now) end
if reap.more and is_operator then return { 'again', now, #reap.charges } end
-- The reaping may have changed the window of the budget.
local window = account.windows and account.windows[OF_ACCOUNT]
return {
  'ok', now, #reap.charges, account.id, account.name, account.plan, key.id or '', key.models,
  int(account.granted), int(account.spent), int(account.reserved), int(account.owed),
  account.status or '', key.tpm or -1,
  account.allowance and allowance_text(account.allowance) or '', account.budget or '',
  window and window_text(window) or account.window_text or '',
  key_budget, key_window and window_text(key_window) or '',
}
