// tollgate accounts …: commands for the accounts that may call the gateway.

import type { List } from '../http/page.ts'
import type { Account } from '../accounts/accounts.ts'
import { path } from './admin.ts'
import { repeatable, tell, usageError, wordAt } from './command.ts'
import type { Call, Command, Options } from './command.ts'
import { collect, pagesOf, tellPages } from './list.ts'
import { card, formatTime } from './table.ts'
import type { Column } from './table.ts'
import { budgetHelp, formatBudget, parseBudget, parseCount, parsePairs } from './values.ts'

const fields: Options = {
  plan: { value: 'PLAN', help: 'a plan of gateway.yaml; if not given, default' },
  'external-id': { value: 'ID', help: 'what your own system calls it' },
  metadata: { value: 'NAME=VALUE', help: 'may be given several times', isList: true },
  budget: { value: 'N/EVERY', help: `${budgetHelp}, or none` },
}

const create: Command = {
  name: 'accounts create',
  words: ['NAME'],
  summary: 'make an account',
  options: { ...fields, ...repeatable },
  async run(call) {
    const body = { name: wordAt(call, 0), ...fieldsOf(call) }
    const admin = await call.admin()
    return show(call, await admin.post<Account>('accounts', body))
  },
}

const list: Command = {
  name: 'accounts list',
  summary: 'all accounts, oldest first',
  options: {
    limit: { value: 'N', help: 'the newest N only' },
    'external-id': { value: 'ID', help: 'only the account with this external id' },
    deleted: { help: 'those that were deleted' },
  },
  async run(call) {
    if (call.has('deleted')) return listAll(call, new URLSearchParams({ status: 'deleted' }))
    const externalId = call.text('external-id')
    if (externalId !== undefined) {
      const admin = await call.admin()
      const found = await admin.get<List<Account>>(path`accounts?external_id=${externalId}`)
      return tellPages(call, columns, [found.data])
    }
    const limit = parseCount('limit', call.text('limit'))
    if (limit === undefined) return listAll(call)
    const newest = await collect<Account>(await call.admin(), 'accounts', { order: 'desc', limit })
    return tellPages(call, columns, [newest.toReversed()])
  },
}

async function listAll(call: Call, query?: URLSearchParams): Promise<number> {
  const pages = pagesOf<Account>(await call.admin(), 'accounts', { order: 'asc', query })
  return tellPages(call, columns, pages)
}

const showOne: Command = {
  name: 'accounts show',
  words: ['ACCOUNT'],
  summary: 'one account',
  async run(call) {
    const admin = await call.admin()
    return show(call, await admin.get<Account>(path`accounts/${wordAt(call, 0)}`))
  },
}

const set: Command = {
  name: 'accounts set',
  words: ['ACCOUNT'],
  summary: 'change name, plan, external id, metadata or budget',
  options: { name: { value: 'NAME', help: 'its new name' }, ...fields },
  async run(call) {
    const body = { ...fieldsOf(call), name: call.text('name') }
    if (Object.values(body).every((value) => value === undefined)) {
      throw usageError(
        'Nothing to change. Give --name, --plan, --external-id, --metadata or --budget.',
      )
    }
    return change(call, body)
  },
}

const statusCommand = (name: string, summary: string, status: Account['status']): Command => ({
  name,
  words: ['ACCOUNT'],
  summary,
  run: (call) => change(call, { status }),
})

const suspend = statusCommand('accounts suspend', 'refuse its requests from now on', 'suspended')
const resume = statusCommand(
  'accounts resume',
  'accept requests of a suspended account again',
  'active',
)

const deletionTimeoutMs = 3_600_000

const remove: Command = {
  name: 'accounts delete',
  words: ['ACCOUNT'],
  summary: 'delete it for ever: keys, sessions, files and names; its transactions stay',
  options: { forfeit: { help: 'also if it has tokens or owes some' } },
  async run(call) {
    const query = call.has('forfeit') ? '?forfeit=true' : ''
    const target = `${path`accounts/${wordAt(call, 0)}`}${query}`
    const admin = await call.admin()
    return show(call, await admin.delete<Account>(target, { timeoutMs: deletionTimeoutMs }))
  },
}

export const accountCommands: readonly Command[] = [
  create,
  list,
  showOne,
  set,
  suspend,
  resume,
  remove,
]

function fieldsOf(call: Call) {
  return {
    plan: call.text('plan'),
    external_id: call.text('external-id'),
    metadata: parsePairs(call.list('metadata')),
    budget: parseBudget(call.text('budget')),
  }
}

async function change(call: Call, body: object): Promise<number> {
  const admin = await call.admin()
  return show(call, await admin.patch<Account>(path`accounts/${wordAt(call, 0)}`, body))
}

function show(call: Call, account: Account): number {
  const { id, name, plan, status, external_id, metadata, budget, created_at, deleted_at } = account
  const pairs = Object.entries(metadata).map(([key, value]) => `${key}=${value}`)
  const shown = {
    id,
    ...(deleted_at === undefined ? { name } : {}),
    plan,
    status,
    ...(external_id === null ? {} : { 'external id': external_id }),
    ...(pairs.length === 0 ? {} : { metadata: pairs.join(' ') }),
    ...(budget && { budget: formatBudget(budget) }),
    created: formatTime(created_at),
    ...(deleted_at === undefined ? {} : { deleted: formatTime(deleted_at) }),
  }
  return tell(call, account, card(shown))
}

const columns: readonly Column<Account>[] = [
  { title: 'ID', cell: ({ id }) => id },
  { title: 'NAME', cell: ({ name }) => name },
  { title: 'PLAN', cell: ({ plan }) => plan },
  { title: 'STATUS', cell: ({ status }) => status },
  { title: 'CREATED', cell: ({ created_at }) => formatTime(created_at) },
]
