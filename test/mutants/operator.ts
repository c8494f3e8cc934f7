// Mutants of what an operator types and reads: queries, commands, log lines, the data folder.

import { one } from './mutant.ts'
import type { Mutant } from './mutant.ts'

export const operatorMutants: readonly Mutant[] = [
  one(
    'http/refusals.ts',
    'for (const name of query.keys()) if (!known.includes(name)) throw unknown(name)',
    'for (const name of query.keys()) if (!known.includes(name.toLowerCase())) throw unknown(name)',
  ),
  one(
    'http/refusals.ts',
    'const strict = /^\\/(?:account\\/)?(?:api|admin)\\//',
    'const strict = /^\\/(?:api|admin)\\//',
  ),
  one('http/page.ts', "if (others.length > 0 || value === '') {", 'if (others.length > 0) {'),
  one(
    'http/page.ts',
    'const readOrder = isTurned ? opposite[order] : order',
    'const readOrder = order',
  ),
  one('listeners/first-byte.ts', 'socket.setTimeout(withinMs, end)', ''),
  one('listeners/first-byte.ts', 'socket.setTimeout(0, end)', ''),
  one(
    'log.ts',
    'return new Map(sorted.map((one) => [one, JSON.stringify(one).slice(1, -1)]))',
    'return new Map(sorted.map((one) => [one, one]))',
  ),
  one('log.ts', 'hidden = hiding(next.secrets ?? [])', ''),
  one(
    'log.ts',
    'const sorted = [...long].toSorted((a, b) => b.length - a.length)',
    'const sorted = [...long]',
  ),
  one('plugins/metering.ts', 'doneEnds: true,', ''),
  one(
    'plugins/metering.ts',
    'return isWaiting || cost === 0 ? Infinity : waived',
    'return waived',
    'plugins/ops.ts',
  ),
  one(
    'plugins/ops.ts',
    'metrics.charged.inc({ model }, cost - waived)',
    'metrics.charged.inc({ model }, cost)',
  ),
  one(
    'backend/secrets.ts',
    'const isQuoting = (word: string) => hidden.test(word) || parts.some((part) => word.includes(part))',
    'const isQuoting = (word: string) => parts.some((part) => word.includes(part))',
    'backend/said.ts',
  ),
  one(
    'backend/secrets.ts',
    '.flatMap((secret) => [secret.slice(0, partChars), secret.slice(-partChars)])',
    '.flatMap((secret) => [secret.slice(0, partChars)])',
    'backend/said.ts',
  ),
  one(
    'chat/backend-status.ts',
    "const said = body && aboutItself.has(status) ? wordsIn(body, target) : ''",
    "const said = body ? wordsIn(body, target) : ''",
  ),
  one(
    'ledger/lua/settle.lua',
    'local waived_in_all = int(before.waived + charge.waived)',
    'local waived_in_all = int(charge.waived)',
    'ledger/shadow.ts',
  ),
  one(
    'log-output.ts',
    'if (opened && opened.writableLength > waitingBytes) return void dropped++',
    '',
  ),
  one('log-output.ts', 'if (!(out instanceof Socket)) opened = undefined', ''),
  one('log-output.ts', 'if (out.destroyed) dropped += count', 'if (out.destroyed) void 0'),
  one('log-output.ts', 'if (!isWritten) out.destroy()', 'if (!isWritten) void 0'),
  one('cli/transactions.ts', 'rows.forEach(print)', ''),
  one(
    'cli/keys.ts',
    "const meant = keys.filter(({ hint, status }) => status === 'active' && hint.endsWith(`…${end}`))",
    'const meant = keys.filter(({ hint }) => hint.endsWith(`…${end}`))',
  ),
  one('cli/admin.ts', 'wasRefused: !isOurFault,', 'wasRefused: true,'),
  one('cli/where.ts', 'if (token !== undefined) io.stderr.write(visible)', ''),
  one(
    'data/folder.ts',
    'const isOurs = names.includes(tokenName) || names.every(isOwn)',
    'const isOurs = names.includes(tokenName) || names.some(isOwn)',
  ),
  one('plugins/traces.ts', 'this.#endFailed()', ''),
  one('plugins/traces.ts', 'else delete headers.tracestate', ''),
  one('plugins/traces.ts', 'providers(gateway).add(provider)', ''),
  one(
    'plugins/traces.ts',
    'if (error) return { type: error.code, isServers: error.status >= 500 }',
    'if (error) return { type: error.code, isServers: status >= 500 }',
  ),
  one(
    'ledger/audit-account.ts',
    'const isWhole = entries.length < fewEntries',
    'const isWhole = entries.length <= fewEntries',
  ),
  one(
    'ledger/walk.ts',
    'await rest(Math.min(longestRestMs, 9 * (performance.now() - beganAt)))',
    'await rest(9 * (performance.now() - beganAt))',
    'ledger/walk.ts',
  ),
  one(
    'ledger/walk.ts',
    'await rest(Math.min(longestRestMs, 9 * (performance.now() - beganAt)))',
    'await rest(Math.min(longestRestMs, performance.now() - beganAt))',
    'ledger/walk.ts',
  ),
  one(
    'ledger/walk.ts',
    'rest: (ms: number) => Promise<unknown> = (ms) => wait(ms, undefined, { ref: false }),',
    'rest: (ms: number) => Promise<unknown> = (ms) => wait(ms),',
    'ledger/walk.ts',
  ),
  one(
    'ledger/walk.ts',
    'const members = [...new Set([...listed, ...deleted])]',
    'const members = [...listed, ...deleted]',
  ),
  one('cli/audit.ts', 'this.#base = this.#checked', ''),
]
