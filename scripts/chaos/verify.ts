// What must be true when all is healed and at rest, besides what each customer checks. The money is even whatever has
// happened: no balance below zero, no hold, no difference in the journal, each payment once. What a fail-over of Redis may
// have lost beside that is in risks.ts; it is forgiven by its time alone, and counted.

import type { Transaction } from '../../src/ledger/transaction.ts'
import type { Account, OwnProcess } from '../../test/fixtures/gateway.ts'
import { balanceNow, balanceOf, differencesOf } from '../../test/fixtures/money.ts'
import { leftIn } from '../../test/fixtures/files-left.ts'
import { openPlaces, s3Config } from '../../test/fixtures/files-world.ts'
import { metricOf } from '../../test/fixtures/metric.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { until } from '../../test/fixtures/until.ts'
import { prefix } from './place.ts'
import type { World } from './world.ts'

const restMs = 60_000

/** Resolves when no hold is open and no settlement waits; returns what did not come to rest. */
export async function comeToRest(
  { places, witness }: World,
  accounts: readonly Account[],
): Promise<readonly string[]> {
  const left: string[] = []
  // All together have this time, and the last ones a look at least.
  const endsAt = performance.now() + restMs
  const leftMs = () => Math.max(0, endsAt - performance.now())
  for (const account of accounts) {
    const isFree = async () => (await balanceNow(witness.gateway, account))?.reserved === 0
    await until(isFree, leftMs()).catch(() => left.push(`${account.id} has open holds`))
  }
  for (const { gateway, name } of places) {
    const waits = async () => (await spooled(gateway)) === 0
    await until(waits, leftMs()).catch(() => left.push(`${name} has settlements that wait`))
  }
  return left
}

/** Entries on disk or in memory, of the last 30 s of connected time. */
const spooled = (gateway: OwnProcess) => metricOf(gateway, 'tollgate_spool_entries ')

/** The oldest first. */
export async function entriesOf(
  { admin }: OwnProcess,
  { id }: Account,
): Promise<readonly Transaction[]> {
  const all: Transaction[] = []
  for (;;) {
    const after = all.length > 0 ? `&after=${all.at(-1)?.id}` : ''
    const answer = await admin('GET', `accounts/${id}/transactions?limit=100&order=asc${after}`)
    const page = (await answer.json()) as { data: Transaction[]; has_more: boolean }
    all.push(...page.data)
    if (!page.has_more) return all
  }
}

/** Lets hours pass for what dead gateways left; returns what is in Redis or in the store all the same. */
export async function filesInOrder(t: Teardown, { state, s3 }: World): Promise<readonly string[]> {
  const quiet = { teardown: t.teardown.bind(t), comment: () => undefined }
  const opened = await openPlaces(quiet, state.config, { place: { s3: s3Config(s3, prefix) }, s3 })
  await opened.sweepLater()
  return leftIn(opened)
}

export async function booksAreEven(
  { witness }: World,
  accounts: readonly Account[],
): Promise<readonly string[]> {
  const broken = (await differencesOf(witness.gateway)).map((one) => JSON.stringify(one))
  for (const account of accounts) {
    const { balance, available, reserved } = await balanceOf(witness.gateway, account)
    if (balance < 0 || available < 0 || reserved !== 0) {
      broken.push(`${account.id}: balance ${balance}, available ${available}, reserved ${reserved}`)
    }
  }
  return broken
}

/** Stops all gateways; returns what they leave behind. */
export async function leaveNothing({ places, toBackends }: World): Promise<readonly string[]> {
  const left: string[] = []
  for (const place of places) {
    const code = await place.stop().catch(String)
    if (code !== 0) left.push(`${place.name} ended with ${code}`)
    const isAlone = () => place.orphans().length === 0
    await until(isAlone).catch(() =>
      left.push(`left over: processes of ${place.name}: ${place.orphans()}`),
    )
  }
  const lines = new Map(toBackends.map((line, i) => [`to backend ${i + 1}`, line]))
  for (const { name, toRedis, toStore } of places) {
    for (const line of toRedis) lines.set(`${name} to Redis, port ${line.port}`, line)
    lines.set(`${name} to S3`, toStore)
  }
  for (const [name, line] of lines) {
    const isClosed = () => line.size === 0
    await until(isClosed).catch(() => left.push(`left over: ${line.size} sockets, ${name}`))
  }
  return left
}
