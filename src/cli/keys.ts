// tollgate keys …: commands for the API keys of accounts. A new key is printed once, on a line of its own.

import type { NewApiKey } from '../accounts/account-keys.ts'
import type { ApiKey } from '../accounts/key-rows.ts'
import type { Account } from '../accounts/accounts.ts'
import { path } from './admin.ts'
import { repeatable, tell, usageError, wordAt } from './command.ts'
import type { Admin, Call, Command } from './command.ts'
import { collect, pagesOf, tellPages } from './list.ts'
import { formatTime, table } from './table.ts'
import type { Column } from './table.ts'
import { budgetHelp, formatBudget, parseBudget } from './values.ts'
import { parseCount, parseList, parseMoment, parseSeconds } from './values.ts'

const account = { value: 'ACCOUNT', help: 'its id or its name' }
const accountOfKey = {
  value: 'ACCOUNT',
  help: 'whose key KEY is, if it is the end of one; if not given, all accounts are searched',
}

const create: Command = {
  name: 'keys create',
  summary: 'make a key, and print it once',
  options: {
    account,
    name: { value: 'NAME', help: 'what it is for' },
    scopes: {
      value: 'A,B',
      help: 'chat, sessions, files, billing; if not given, all',
      isList: true,
    },
    models: { value: 'A,B', help: 'if not given, all models of the plan', isList: true },
    expires: { value: 'WHEN', help: '90d, 12h or a day such as 2027-01-31; if not given, never' },
    'requests-per-minute': { value: 'N', help: "a limit below the plan's" },
    'tokens-per-minute': { value: 'N', help: "a limit below the plan's" },
    concurrency: { value: 'N', help: 'most generations at the same time' },
    budget: { value: 'N/EVERY', help: budgetHelp },
    ...repeatable,
  },
  async run(call) {
    const expires = call.text('expires')
    const body = {
      name: call.text('name'),
      scopes: parseList(call.list('scopes')),
      models: parseList(call.list('models')),
      expires_at: expires === undefined ? undefined : parseMoment(expires),
      limits: limitsOf(call),
      budget: parseBudget(call.text('budget')),
    }
    const target = path`accounts/${accountOf(call)}/keys`
    return makeKey(call, target, body)
  },
}

const list: Command = {
  name: 'keys list',
  words: ['ACCOUNT?'],
  summary: "an account's keys, oldest first",
  options: { account },
  async run(call) {
    const target = path`accounts/${call.words[0] ?? accountOf(call)}/keys`
    return tellPages(call, columns, pagesOf(await call.admin(), target, { order: 'asc' }))
  },
}

const set: Command = {
  name: 'keys set',
  words: ['KEY'],
  summary: "change a key's budget",
  options: { account: accountOfKey, budget: { value: 'N/EVERY', help: `${budgetHelp}, or none` } },
  async run(call) {
    const budget = parseBudget(call.text('budget'))
    if (budget === undefined) throw usageError('Nothing to change. Give --budget.')
    const admin = await call.admin()
    const key = await admin.patch<ApiKey>(path`keys/${await keyIdOf(call, admin)}`, { budget })
    return tell(call, key, table(columns, [key]))
  },
}

const revoke: Command = {
  name: 'keys revoke',
  words: ['KEY'],
  summary: 'refuse all further requests with a key',
  options: { account: accountOfKey },
  async run(call) {
    const admin = await call.admin()
    const key = await admin.delete<ApiKey>(path`keys/${await keyIdOf(call, admin)}`)
    return tell(call, key, `${key.id} is revoked.\n`)
  },
}

const rotate: Command = {
  name: 'keys rotate',
  words: ['KEY'],
  summary: 'make a new key like this one; the old one stops working',
  options: {
    account: accountOfKey,
    grace: {
      value: 'TIME',
      help: 'how long the old key still works, such as 1h; if not given, it stops at once',
    },
    ...repeatable,
  },
  async run(call) {
    const grace = parseSeconds(call.text('grace') ?? '0')
    const id = await keyIdOf(call, await call.admin())
    return makeKey(call, path`keys/${id}/rotate`, { grace })
  },
}

const find: Command = {
  name: 'keys find',
  summary:
    'show whose key it is; reads the key from stdin, not from the command line, which shells record',
  async run(call) {
    const admin = await call.admin()
    const key = await admin.post<ApiKey>('keys/find', { key: await readInput(call) })
    const account = await admin.get<Account>(path`accounts/${key.account_id}`)
    return tell(
      call,
      { ...key, account },
      `${account.name} (${account.id})\n${table(columns, [key])}`,
    )
  },
}

export const keyCommands: readonly Command[] = [create, list, find, set, revoke, rotate]

/** A key has 57 characters; a longer input is probably a file that was piped in by mistake. */
const longestInput = 1024

async function readInput({ io }: Call): Promise<string> {
  let text = ''
  for await (const chunk of io.stdin ?? []) {
    text += String(chunk)
    if (text.length > longestInput) throw usageError('What came on stdin is too long to be a key.')
  }
  return text.trim()
}

/** How many characters of the end of a key its hint shows. */
const endLength = 4

/**
 * Resolves with the id of the key that the command's word means: an id, or the last 4 characters of a key. Exactly one
 * active key of the account may end so; without --account, of all accounts.
 */
async function keyIdOf(call: Call, admin: Admin): Promise<string> {
  const word = wordAt(call, 0)
  if (word.startsWith('key_')) return word
  const end = word.slice(word.indexOf('…') + 1)
  // The whole key is not accepted: it would get into the shell's history.
  if (end.length !== endLength) throw usageError(noKeyId)
  const keys = await keysOf(admin, call.text('account'))
  const meant = keys.filter(({ hint, status }) => status === 'active' && hint.endsWith(`…${end}`))
  if (meant.length === 1 && meant[0]) return meant[0].id
  const many = meant.length > 1
  throw usageError(
    `${many ? 'Several active keys end' : 'No active key ends'} with these characters. Give the id of the key.`,
  )
}

/** The keys of an account, or of all. */
async function keysOf(admin: Admin, account: string | undefined): Promise<readonly ApiKey[]> {
  const order = 'asc'
  if (account) return collect<ApiKey>(admin, path`accounts/${account}/keys`, { order })
  const found: ApiKey[] = []
  for (const { id } of await collect<Account>(admin, 'accounts', { order }))
    found.push(...(await collect<ApiKey>(admin, path`accounts/${id}/keys`, { order })))
  return found
}

function accountOf(call: Call): string {
  const given = call.text('account')
  if (given === undefined) throw usageError('Give --account ACCOUNT.')
  return given
}

const noKeyId =
  'Give the id of the key, key_…, or its last four characters; `tollgate keys list ACCOUNT` shows both.'

function limitsOf(call: Call) {
  const limits = {
    requests_per_minute: parseCount('requests-per-minute', call.text('requests-per-minute')),
    tokens_per_minute: parseCount('tokens-per-minute', call.text('tokens-per-minute')),
    concurrency: parseCount('concurrency', call.text('concurrency')),
  }
  return Object.values(limits).some((value) => value !== undefined) ? limits : undefined
}

async function makeKey(call: Call, target: string, body: object): Promise<number> {
  const admin = await call.admin()
  const made = await admin.post<NewApiKey>(target, body)
  // Only the key goes to stdout, so that a shell can take it; the notice for a person goes to stderr.
  if (!call.isJson) call.io.stderr.write(`${made.id}: keep the key, it is not shown again.\n`)
  return tell(call, made, `${made.key}\n`)
}

const columns: readonly Column<ApiKey>[] = [
  { title: 'ID', cell: ({ id }) => id },
  { title: 'NAME', cell: ({ name }) => name },
  { title: 'KEY', cell: ({ hint }) => hint },
  { title: 'SCOPES', cell: ({ scopes }) => scopes.join(',') },
  { title: 'MODELS', cell: ({ models }) => models.join(',') },
  { title: 'BUDGET', cell: ({ budget }) => formatBudget(budget) },
  { title: 'CREATED', cell: ({ created_at }) => formatTime(created_at) },
  { title: 'LAST USED', cell: ({ last_used_at }) => formatTime(last_used_at) },
  { title: 'EXPIRES', cell: ({ expires_at }) => formatTime(expires_at) },
  { title: 'STATUS', cell: ({ status }) => status },
]
