// Fills a Redis with accounts through the gateway's own code and scripts, so that their rows are those of accounts that
// customers made: each has a name, an external id, a key, a top-up and a charge.

import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { createAccounts } from '../src/accounts/accounts.ts'
import { keyReader } from '../src/accounts/api-key.ts'
import type { Plan } from '../src/config/config.ts'
import { newId } from '../src/ids.ts'
import { createLedger } from '../src/ledger/ledger.ts'
import type { Hold } from '../src/ledger/hold.ts'
import type { Ledger } from '../src/ledger/ledger.ts'
import { charge, parsePrice } from '../src/ledger/price.ts'
import type { RedisLink } from '../src/redis/connect.ts'
import { diskStore } from '../src/store/disk.ts'
import { say } from './ground.ts'

export interface Filled {
  readonly id: string
  readonly name: string
  readonly externalId: string
  /** The text of its key. */
  readonly key: string
}

export interface Filling {
  /** Of the first account that is made. */
  readonly from: number
  readonly to: number
  /** For the ledger's spool. */
  readonly folder: string
}

const atOnce = 200
/** Accounts that are remembered, spread over all. */
const remembered = 100

/** Resolves with some of the accounts. */
export async function fill(
  link: RedisLink,
  { from, to, folder }: Filling,
): Promise<readonly Filled[]> {
  const config = { plugins: new Map() }
  const accounts = createAccounts(link.client, config)
  const keyOf = keyReader(config)
  const ledger = await createLedger({
    link,
    spoolDir: join(folder, 'filling'),
    archiveStore: diskStore(join(folder, 'store')),
    leaseMs: 30_000,
    plans: () => new Map([['default', plan]]),
  })
  while (!ledger.isOpen) await wait(50)
  const add = async (i: number): Promise<Filled> => {
    const [name, externalId] = [`customer ${i}`, `crm-${i}`]
    const { ref, account } = await accounts.createAccount({ name, externalId })
    const { key } = await accounts.createKey(ref, {})
    await ledger.credit({ ref, idempotencyId: newId('req'), amount: 1_000_000_000, type: 'topup' })
    await spend(ledger, { ref, hmac: keyOf(key)?.hmac ?? '' })
    return { id: account.id, name, externalId, key }
  }
  const every = Math.ceil((to - from) / remembered)
  const some: Filled[] = []
  let next = from
  const work = async () => {
    for (let i = next++; i < to; i = next++) {
      const one = await add(i)
      if ((i - from) % every === 0) some.push(one)
      if (i % 10_000 === 0) say(`${i} accounts`)
    }
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  await ledger.close()
  return some
}

export const plan: Plan = {
  requestsPerMinute: 1e9,
  tokensPerMinute: 1e12,
  concurrency: 1e5,
  models: ['*'],
  storageBytes: 1e12,
  storageUnpaidBytes: 1e12,
  allowance: undefined,
}
const price = parsePrice('1 4')
const counts = { prompt: 30, cached: 0, completion: 20 }

/** The account and the key of a request. */
export interface Caller {
  readonly ref: string
  readonly hmac: string
}

/** One request, as the gateway books it. */
async function spend(ledger: Ledger, caller: Caller): Promise<void> {
  await endHold(ledger, await makeHold(ledger, caller))
}

export function makeHold(ledger: Ledger, caller: Caller): Promise<Hold> {
  const requestId = newId('req')
  return ledger.admit({
    ...caller,
    scope: 'chat',
    holdId: requestId.slice('req_'.length),
    amount: 1000,
    min: 100,
    promptTokens: 30,
    outputTokens: 200,
    model: 'bench',
    meta: { requestId, price },
  })
}

export async function endHold(ledger: Ledger, hold: Hold): Promise<void> {
  await ledger.settle(hold, { ...counts, charge: charge(price, counts) })
}
