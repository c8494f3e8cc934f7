// Mutants of what customers take along, come back for, and are shown: CSV, deleted log-ins, budgets, erasure, the document.

import { one } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const deleted = 'portal/deleted-logins.ts'
const removal = 'sessions/account-removal.ts'

export const accountMutants: readonly Mutant[] = [
  one(deleted, 'if (!externalId?.startsWith(issuerPart(oidc))) return', ''),
  one(deleted, '.update(`deleted-login\\n${externalId}`)', ".update('deleted-login')"),
  one(
    'portal/oidc.ts',
    'const allowance = (await deletedLogins.recall(externalId)) || undefined',
    'const allowance = undefined',
    deleted,
  ),
  one(
    'portal/oidc.ts',
    '(await parts.deletedLogins.recall(admitted.externalId)) === undefined',
    'true',
    deleted,
  ),
  one(removal, 'await options.remember?.(ref)', '', deleted),
  one(removal, 'await writeOff(options, ref)', ''),
  one('portal/cookie.ts', 'return values.length === 1 ? values[0] : undefined', 'return values[0]'),
  one(
    'portal/lua/open.lua',
    "if owner.is_suspended then return { 'account_suspended', now } end",
    '',
    'plugins/account/oidc.ts',
  ),
  one(
    'portal/lua/link.lua',
    "if owner.is_suspended then return { 'account_suspended', now } end",
    '',
    'portal/portal.ts',
  ),
  one(
    'plugins/account/oidc.ts',
    "if (x.query.getAll('state').join() !== kept.state) throw byState()",
    '',
  ),
  one(
    'plugins/account/oidc.ts',
    'if (Date.now() - kept.atMs < answerSeconds * 1000) return kept',
    'return kept',
  ),
  one(
    'plugins/account/access.ts',
    "if (site !== undefined && site !== 'same-origin' && site !== 'none') throw notTheSite()",
    '',
  ),
  one(
    'plugins/account/keys.ts',
    'const mostPageKeys = Math.ceil(mostLogins / 2)',
    'const mostPageKeys = 10',
    'plugins/account/account.ts',
  ),
  one('http/csv.ts', "return formula.test(text) ? `'${text}` : text", 'return text'),
  one(
    'http/csv.ts',
    'return quoted.test(text) ? `"${text.replaceAll(\'"\', \'""\')}"` : text',
    'return quoted.test(text) ? `"${text}"` : text',
  ),
  one('budget.ts', 'used: isRunning ? window.used : 0,', 'used: window?.used ?? 0,'),
  one(
    'ledger/balance.ts',
    'left: Math.min(allowance?.left ?? 0, granted - spent),',
    'left: allowance?.left ?? 0,',
  ),
  one(
    'ledger/balance.ts',
    'return budget ? Math.max(0, budget.tokens - budget.used) : Infinity',
    'return budget ? budget.tokens - budget.used : Infinity',
  ),
  one(
    'openapi/document.ts',
    "return [{ key: access === 'any-key' ? [] : [access] }]",
    'return [{ key: [] }]',
  ),
  one('openapi/document.ts', "if (access === 'anybody') return []", ''),
  one('openapi/document.ts', "if (!path.startsWith('/api/')) return {}", ''),
  one('plugins/docs/docs.ts', '"frame-ancestors \'none\'",', ''),
  one('plugins/docs/docs.ts', '"script-src \'self\'",', "\"script-src 'self' 'unsafe-inline'\","),
  one(
    'plugins/admin/keys.ts',
    'const keys = await accounts.listKeys(ref, operatorTurn)',
    'const keys = await accounts.listKeys(ref)',
    'plugins/admin/money.ts',
  ),
  one(
    'ledger/usage.ts',
    'return lists.run(share, async () => {',
    'return lists.run(ref, async () => {',
    'plugins/admin/money.ts',
  ),
]
