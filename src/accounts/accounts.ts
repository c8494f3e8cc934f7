// Accounts and their keys as the operator sees them: made, found, listed, changed. Balances are in ledger/ledger.ts.
// Nothing is cached: what is changed here holds for the next request on every gateway. A sequence of writes that is cut
// short leaves at most rows that nobody finds.

import type { Redis } from '../redis/client.ts'
import { budgetText, parseBudget } from '../budget.ts'
import type { TokenBudget, BudgetState } from '../budget.ts'
import type { Config } from '../config/config.ts'
import { asked } from '../redis/asked.ts'
import { GatewayError, hasCode } from '../errors.ts'
import { directionOf, listOf } from '../http/page.ts'
import type { List, Page } from '../http/page.ts'
import { invalidParameter } from '../http/refusals.ts'
import { newId } from '../ids.ts'
import { readMembers } from '../redis/listing.ts'
import { keys } from '../redis/keys.ts'
import { forgetNames, nameOwner, takeName } from './account-names.ts'
import type { TakenName, UniqueField } from './account-names.ts'
import { createKeyBook, endPageKeys, given } from './account-keys.ts'
import { createErasure } from './account-erasure.ts'
import { accountSettings, newRef } from './api-key.ts'
import { writeAccount } from './open-rows.ts'

/** As the admin API shows it. */
export interface Account {
  readonly id: string
  readonly object: 'account'
  readonly name: string
  readonly plan: string
  readonly status: AccountStatus
  readonly external_id: string | null
  readonly metadata: Readonly<Record<string, string>>
  /** A cap on what all its keys may spend together. */
  readonly budget: BudgetState | null
  readonly created_at: number
  /** Only of a deleted account. */
  readonly deleted_at?: number
}

/** `deleting`: its deletion has begun, and has to be called again if it was cut. */
export type AccountStatus = 'active' | 'suspended' | 'deleting' | 'deleted'

/** An account with the ref that its Redis keys and its API keys carry. */
export interface StoredAccount {
  readonly ref: string
  readonly account: Account
}

export interface Filter {
  readonly name?: string | undefined
  readonly externalId?: string | undefined
}

export interface AccountFields {
  readonly name?: string
  readonly plan?: string
  readonly status?: 'active' | 'suspended'
  readonly externalId?: string | null
  readonly metadata?: Readonly<Record<string, string>>
  readonly budget?: TokenBudget | null
}

export interface NewAccount extends AccountFields {
  readonly name: string
  /** The `allowance` field of the owner's deleted account: what it had in this window is not given again. */
  readonly allowance?: string | undefined
}

/** Fixed before anything is written, so that a creation that is carried out twice makes one account. */
export interface AccountSeed {
  readonly id: string
  readonly ref: string
  readonly createdAt: number
}

export type Accounts = ReturnType<typeof createAccounts>

export function createAccounts(redis: Redis, config: Pick<Config, 'plugins'>) {
  const { pepper } = accountSettings.of(config)
  return { ...createAccountBook(redis), ...createKeyBook(redis, pepper), ...createErasure(redis) }
}

export function newAccountSeed(): AccountSeed {
  return { id: newId('acct'), ref: newRef(), createdAt: Math.floor(Date.now() / 1000) }
}

function createAccountBook(redis: Redis) {
  const getAccount = (idOrName: string) =>
    asked(idOrName.startsWith('acct_') ? findById(redis, idOrName) : findByName(redis, idOrName))
  return {
    /** By id or by exact name. Throws `account_not_found`; `invalid_parameter` where several have the name. */
    getAccount,
    createAccount: (fields: NewAccount, seed = newAccountSeed()) =>
      asked(create(redis, fields, seed)),
    listAccounts: (page: Page) => asked(list(redis, keys.accounts, page)),
    listDeleted: (page: Page) => asked(list(redis, keys.deletedAccounts, page)),
    /** The account with this name and this external id, where one is given. */
    findAccounts: (filter: Filter) => asked(findAll(redis, filter)),
    setAccount: async (idOrName: string, fields: AccountFields) =>
      asked(set(redis, await getAccount(idOrName), fields)),
  }
}

async function create(
  redis: Redis,
  fields: NewAccount,
  { id, ref, createdAt }: AccountSeed,
): Promise<StoredAccount> {
  // A listed account is complete. It is not written again, because it may have been changed or deleted since.
  const lists = [keys.accounts, keys.deletedAccounts]
  const scores = await Promise.all(lists.map((one) => redis.zscore(one, `${id}:${ref}`)))
  if (scores.every((score) => score === null)) {
    const { name, plan = 'default', status = 'active', externalId, metadata, budget } = fields
    const had = given({ allowance: fields.allowance })
    const row = { id, name, plan, status, created_at: createdAt, ...had }
    await withNames(redis, { id, name, externalId }, async () => {
      await redis.hset(keys.account(ref), { ...row, ...optional({ externalId, metadata, budget }) })
      await redis.zadd(keys.accountNames, 0, nameMember(name, id))
      await redis.zadd(keys.accounts, 0, `${id}:${ref}`)
    })
  }
  return read(redis, ref)
}

async function set(
  redis: Redis,
  { ref, account }: StoredAccount,
  { name, plan, status, externalId, metadata, budget }: AccountFields,
): Promise<StoredAccount> {
  const changes = {
    ...given({
      name,
      plan,
      status,
      ...(status === 'suspended' && { suspended_at: await nowMs(redis) }),
    }),
    ...optional({ externalId, metadata, budget }),
  }
  await withNames(redis, { id: account.id, name, externalId }, async () => {
    // The old name stays in the index: readers compare it with the row, and removing it could race with a rename back.
    if (name !== undefined) await redis.zadd(keys.accountNames, 0, nameMember(name, account.id))
    if (Object.keys(changes).length === 0) return
    await writeAccount(redis, ref, changes)
    if (status === 'suspended') await endPageKeys(redis, ref)
  }).catch(async (error: unknown) => {
    // The deletion may have forgotten the account's names before this change took them.
    if (hasCode(error, 'account_deleted')) await forgetNames(redis, account.id)
    throw error
  })
  return read(redis, ref)
}

/** By Redis' own clock, because scripts compare this time with that clock. */
async function nowMs(redis: Redis): Promise<number> {
  const [seconds, microseconds] = await redis.time()
  return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000)
}

/** An empty text stands for none: HSET takes no null. */
function optional({ externalId, metadata, budget }: AccountFields): Record<string, string> {
  return given({
    external_id: externalId === null ? '' : externalId,
    metadata: metadata && JSON.stringify(metadata),
    budget: budget === undefined ? undefined : budgetText(budget),
  })
}

/** Names hold no control characters, so a zero byte marks the end of the name. */
function nameMember(name: string, id: string): string {
  return `${name}\0${id}`
}

interface Names {
  /** The id of the account that wants them. */
  readonly id: string
  readonly name?: string | undefined
  readonly externalId?: string | null | undefined
}

/** A name belongs to one account, and so does an external id: a script that tops up by either must not reach another customer. */
async function withNames(redis: Redis, names: Names, write: () => Promise<void>): Promise<void> {
  const { id, name, externalId } = names
  const takenNames: TakenName[] = []
  const take = async (what: UniqueField, text: string) => {
    const isHeldBy = async (other: string) => (await find(redis, other))?.account[what] === text
    const own = await takeName(redis, { what, text, id, isHeldBy })
    if (!own) throw taken(what)
    takenNames.push(own)
  }
  try {
    if (name !== undefined) {
      await take('name', name)
      // Accounts that an older version made have taken no name: only the index knows them.
      const others = await findNamed(redis, name)
      if (others.some(({ account }) => account.id !== id)) throw taken('name')
    }
    if (externalId) await take('external_id', externalId)
    await write()
  } finally {
    for (const one of takenNames) await one.done().catch(() => undefined) // then the name is held for 10 s at most
  }
}

function taken(param: UniqueField): GatewayError {
  return invalidParameter(param, `Another account has this ${param}.`)
}

async function findAll(
  redis: Redis,
  { name, externalId }: Filter,
): Promise<readonly StoredAccount[]> {
  const named = name === undefined ? undefined : await findNamed(redis, name)
  if (externalId === undefined) return named ?? []
  const owner = await nameOwner(redis, 'external_id', externalId)
  const found = owner === undefined ? undefined : await find(redis, owner)
  if (!found || found.account.external_id !== externalId) return []
  const isNamed = !named || named.some(({ account }) => account.id === found.account.id)
  return isNamed ? [found] : []
}

async function findById(redis: Redis, id: string): Promise<StoredAccount> {
  const found = await find(redis, id)
  if (!found) throw new GatewayError('account_not_found')
  return found
}

async function find(redis: Redis, id: string): Promise<StoredAccount | undefined> {
  const ref = await refOf(redis, id)
  return ref === undefined ? undefined : await read(redis, ref)
}

async function refOf(redis: Redis, id: string): Promise<string | undefined> {
  for (const listed of [keys.accounts, keys.deletedAccounts]) {
    const [member] = await redis.zrangebylex(listed, `[${id}:`, `(${id};`, 'LIMIT', 0, 1)
    if (member) return refIn(member)
  }
  return undefined
}

async function findByName(redis: Redis, name: string): Promise<StoredAccount> {
  const [first, ...others] = await findNamed(redis, name)
  if (!first) throw new GatewayError('account_not_found')
  if (others.length === 0) return first
  const message = `${others.length + 1} accounts have this name. Give the id of the one you mean.`
  throw invalidParameter('id', message)
}

async function findNamed(redis: Redis, name: string): Promise<readonly StoredAccount[]> {
  const members = await redis.zrangebylex(keys.accountNames, `[${name}\0`, `(${name}\x01`)
  const ids = members.map((member) => member.slice(name.length + 1))
  const refs = await Promise.all(ids.map((id) => refOf(redis, id)))
  const found = await Promise.all(
    refs.flatMap((ref) => (ref === undefined ? [] : [read(redis, ref)])),
  )
  return found.filter(({ account }) => account.name === name)
}

async function list(redis: Redis, listed: string, page: Page): Promise<List<Account>> {
  const { isTurned, ...from } = directionOf(page)
  const members = await readMembers(redis, listed, { ...from, count: page.limit + 1 })
  const refs = members.slice(0, page.limit).map(refIn)
  if (isTurned) refs.reverse()
  const found = await Promise.all(refs.map((ref) => read(redis, ref)))
  return listOf(
    found.map(({ account }) => account),
    members.length > page.limit,
  )
}

function refIn(member: string): string {
  return member.slice(member.indexOf(':') + 1)
}

async function read(redis: Redis, ref: string): Promise<StoredAccount> {
  const row = await redis.hgetall(keys.account(ref))
  const { id, name, plan, external_id, metadata, budget, window, created_at, deleted_at } = row
  if (id === undefined) throw new GatewayError('account_not_found')
  return {
    ref,
    account: {
      id,
      object: 'account',
      name: name ?? '',
      plan: plan ?? 'default',
      status: statusOf(row),
      external_id: external_id || null,
      metadata: metadata ? JSON.parse(metadata) : {},
      budget: budget ? (parseBudget(budget, window, await nowMs(redis)) ?? null) : null,
      created_at: Number(created_at ?? 0),
      ...(deleted_at !== undefined && { deleted_at: Number(deleted_at) }),
    },
  }
}

function statusOf({ status, closed_at, deleted_at }: Readonly<Record<string, string>>) {
  if (deleted_at !== undefined) return 'deleted'
  if (closed_at !== undefined) return 'deleting'
  return status === 'suspended' ? 'suspended' : 'active'
}
