// A shield (finding 2): the balance is locked by large cheap holds, beside them runs what costs more than its hold, then
// the locks are dropped. What was used has to be owed: nothing is served until a top-up has paid it.

import { randomBytes } from 'node:crypto'
import type { Account, OwnProcess } from '../../test/fixtures/gateway.ts'
import { until } from '../../test/fixtures/until.ts'
import { balanceOf, settledBalance, topUp } from './books.ts'
import { ask } from './client.ts'
import { images } from './loads.ts'
import { maxOutputTokens } from './models.ts'
import { faultOf } from './play.ts'
import type { Result } from './play.ts'
import { stays } from './strategy.ts'
import type { Truth } from './truth.ts'
import type { World } from './world.ts'

const granted = 100_000
/** What the dear one has to be admitted. */
const seemingTokens = 13_000
const mostLocks = 60
const path = '/v1/chat/completions'
const hello = [{ role: 'user', content: 'Hi' }]

export async function playShield(world: World): Promise<readonly Result[]> {
  const [gateway, other] = world.gateways
  const account = await gateway.account(granted)
  const trace = randomBytes(16).toString('hex')
  const truth = world.truths.of(trace)
  await raise(world, account, truth, trace)
  await truth.idle()
  const { spent, owed = 0, balance } = await settledBalance(gateway, account)
  const strategy = {
    name: 'a shield',
    item: 2,
    model: 'end',
    leaving: stays,
    body: () => '',
  } as const
  const used = truth.cost
  const line = {
    name: strategy.name,
    item: 2,
    backend: 'end',
    ending: 'drops its locks',
    requests: truth.requests,
    truth: used,
    paid: spent,
    owed,
    said: '',
  }
  const fault = balance < 0 ? 'a negative balance' : faultOf(strategy, truth, spent + owed)
  return [{ ...line, fault }, await payBack(other, account, { line, owed })]
}

/** Locks all but what the dear one seems to cost, asks for the dear one, and goes. */
async function raise(world: World, account: Account, truth: Truth, trace: string): Promise<void> {
  const [gateway, other] = world.gateways
  const dear = JSON.stringify({ model: 'end', ...images(8, 5376), stream: true, max_tokens: 16 })
  const lock = JSON.stringify({
    model: 'silent',
    messages: hello,
    stream: true,
    max_tokens: maxOutputTokens,
  })
  const away = new AbortController()
  const { key } = account
  const asking = { path, key, trace, leaving: stays, truth }
  const locks: Promise<unknown>[] = []
  for (;;) {
    const { available } = await balanceOf(gateway, account)
    if (available < seemingTokens + maxOutputTokens || locks.length >= mostLocks) break
    locks.push(ask({ ...asking, url: gateway.url, body: lock, signal: away.signal }))
    await until(async () => (await balanceOf(gateway, account)).available < available)
  }
  await ask({ ...asking, url: other.url, body: dear })
  away.abort()
  await Promise.all(locks)
}

/** A debt is refused with 402, on every gateway, until a top-up has paid it; what is free stays free. */
async function payBack(
  gateway: OwnProcess,
  account: Account,
  { line, owed }: { readonly line: Omit<Result, 'fault'>; readonly owed: number },
): Promise<Result> {
  const faults: string[] = []
  const status = async (model: string) => {
    const body = { model, messages: hello, max_tokens: 16 }
    const answer = await gateway.call(path, account.key, body)
    const text = await answer.text()
    return `${answer.status} ${/"code":"(\w+)"/.exec(text)?.[1] ?? ''}`.trim()
  }
  const expect = async (model: string, wanted: string, when: string) => {
    const found = await status(model)
    if (found !== wanted) faults.push(`${when}: ${found}`)
  }
  const refusal = '402 insufficient_balance'
  if (owed === 0) faults.push('nothing is owed')
  await expect('end', refusal, 'in debt')
  await expect('free', '200', 'what is free')
  await topUp(gateway, account, Math.max(1, Math.floor(owed / 2)))
  await expect('end', refusal, 'half paid')
  await topUp(gateway, account, Math.ceil(owed / 2) + 1000)
  await expect('end', '200', 'all paid')
  const { owed: left = 0, spent, balance } = await settledBalance(gateway, account)
  if (left > 0 || balance < 0) faults.push(`still owed: ${left}, balance ${balance}`)
  const { truth } = line
  // One more answer was bought.
  if (spent < truth) faults.push('never paid')
  const name = 'a shield, paid back'
  return { ...line, name, ending: 'tops up', paid: spent, owed: left, fault: faults.join('; ') }
}
