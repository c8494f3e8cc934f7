// Mutants of allowances and budgets: what would renew twice, let a race pass, or not add up.

import { one } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const lua = (name: string, line: string, replacement: string, ...tests: readonly string[]) =>
  one(`ledger/lua/${name}.lua`, line, replacement, ...tests)

const renewals = 'ledger/renewals.ts'
const budgets = 'ledger/budgets.ts'

export const windowMutants: readonly Mutant[] = [
  lua('calendar', 'if now < start or now >= ends then return nil end', '', renewals),
  lua(
    'sums',
    'allowance.left, allowance.used = allowance.left - drawn, allowance.used + drawn',
    'allowance.left = allowance.left - drawn',
    renewals,
  ),
  lua(
    'sums',
    'local drawn = paid > 0 and math.min(allowance.left, paid) or -math.min(allowance.used, -paid)',
    'local drawn = math.max(0, math.min(allowance.left, paid))',
    renewals,
  ),
  lua('renew', 'if is_over and start >= ends then', 'if is_over then', renewals),
  lua(
    'renew',
    'local had, used, ends = allowance.left, allowance.used, allowance.ends',
    'local had, used, ends = allowance.left, 0, allowance.ends',
    renewals,
  ),
  lua('renew', "if excess > free then allowance.plan = '' end", '', renewals),
  lua(
    'admit',
    'if not is_reopening then available_to_all = available_to_all - withdrawn(account, offer) end',
    '',
    renewals,
  ),
  lua(
    'admission',
    'local target = math.max(0, (tonumber(tokens) or 0) - tonumber(used))',
    'local target = 0',
    renewals,
  ),
  lua('renew', 'local drawn = draw_beyond_balance(account)', 'local drawn = 0', renewals),
  lua('renew', 'local repaid = book_repayment(account)', 'local repaid = nil', renewals),
  lua(
    'renew',
    "if not start then return { 'windows', now } end",
    "if not start then return { 'ok', now } end",
    renewals,
  ),
  lua(
    'renew',
    "if account.plan ~= plan then return { 'plan', now, account.plan } end",
    '',
    renewals,
  ),
  lua(
    'renew',
    "if not account.id or status == 'suspended' then return { 'ok', now } end",
    "if not account.id then return { 'ok', now } end",
    renewals,
  ),
  lua(
    'admission',
    "if not tokens then return left ~= '0' and may_take end",
    "if not tokens then return left ~= '0' end",
    renewals,
  ),
  lua(
    'admission',
    'return may_take or tokens - tonumber(used) > tonumber(left)',
    'return may_take',
    renewals,
  ),
  lua(
    'admission',
    'return may_take or tokens - tonumber(used) > tonumber(left)',
    'return true',
    renewals,
  ),
  one('ledger/admission.ts', 'isRenewed = false', '', renewals),
  lua('credit', 'local drawn = draw_beyond_balance(account)', 'local drawn = 0', renewals),
  lua('credit', 'drawn = drawn + draw_beyond_balance(account)', '', renewals),
  lua('write_off', 'local drawn = draw_beyond_balance(account)', 'local drawn = 0', renewals),
  lua(
    'trim',
    "if fields.type == 'allowance' then allowance = allowance + number(fields.amount) end",
    '',
    renewals,
  ),
  lua(
    'budgets',
    'local goes_on = window and window.every == every and start < window.ends',
    'local goes_on = window and start < window.ends',
    budgets,
  ),
  lua('budgets', 'budgets.left = math.min(budgets.left, budget.left)', '', budgets),
  lua(
    'windows',
    "return every and OF_KEY .. (key.budget_of or key.id) .. ':' .. every",
    "return every and OF_KEY .. key.id .. ':' .. every",
    budgets,
  ),
  lua(
    'budgets',
    'part.field, part.since, part.tokens = budget.field, budget.window.since, held',
    '',
    budgets,
  ),
  lua('budget_charges', 'if window.since == part.since then', 'if true then', budgets),
  lua(
    'budget_charges',
    'counted, freed = math.max(0, due - part.tokens), math.max(0, held - part.tokens)',
    'counted, freed = math.max(0, due), math.max(0, held)',
    budgets,
  ),
  lua(
    'reap',
    'charge.counted_in_all = book_budgets(account, charge, hold_windows, number(amount), due, counted)',
    '',
    budgets,
  ),
  lua('settle', 'hold_windows.account.since = window and window.since', '', budgets),
  lua('admit', 'take_budgets(account, budgets, amount)', '', budgets),
  lua(
    'extend',
    'local available = math.min(available_of(account), budgets.left)',
    'local available = available_of(account)',
    budgets,
  ),
]
