// A shield (finding 2): large cheap holds lock the balance, requests that cost more than their hold run beside them,
// then the locks are dropped. And a debt: what an account cannot pay is owed, and only free requests are served until
// it is paid.

import { randomBytes } from 'node:crypto'
import type { Account, OwnProcess } from '../../test/fixtures/gateway.ts'
import { balanceOf } from '../../test/fixtures/money.ts'
import type { Random } from '../../test/fixtures/random.ts'
import { until } from '../../test/fixtures/until.ts'
import { ask } from './client.ts'
import { dense, images } from './loads.ts'
import { maxOutputTokens } from './models.ts'
import { play, settledBalance } from './play.ts'
import type { Result } from './play.ts'
import { stays } from './strategy.ts'
import type { Truth } from './truth.ts'
import type { World } from './world.ts'

const granted = 100_000
/** What each expensive request needs for its admission, by the estimate of eight images or of its bytes. */
const seemingTokens = 13_000
const mostLocks = 60
const path = '/v1/chat/completions'
const hello = [{ role: 'user', content: 'Hi' }]
const line = { item: 2, backend: 'end', said: '' }

export async function playShield(world: World, random: Random): Promise<Result> {
  const [gateway] = world.gateways
  const account = await gateway.account(granted)
  const trace = randomBytes(16).toString('hex')
  const truth = world.truths.of(trace)
  const bodies = [images(8, 5376), dense(random, 10_000)]
  for (const body of bodies) await raise(world, { account, truth, trace, body })
  await truth.idle()
  const { spent, owed, balance } = await settledBalance(gateway, account)
  const { requests, cost } = truth
  const faults = [
    ...(spent + owed < cost ? ['stolen'] : []),
    ...(balance < 0 ? ['a negative balance'] : []),
    ...(owed > 0 && balance > 0 ? ['owed beside a balance'] : []),
  ]
  const ending = 'drops its locks'
  const sums = { requests, truth: cost, paid: spent, owed, fault: faults.join('; ') }
  return { ...line, name: 'a shield', ending, ...sums }
}

interface Raised {
  readonly account: Account
  readonly truth: Truth
  readonly trace: string
  readonly body: object
}

/** Locks all of the balance except the estimate of the expensive request, sends that request, and leaves. */
async function raise(world: World, { account, truth, trace, body }: Raised): Promise<void> {
  const [gateway, other] = world.gateways
  const { key } = account
  const fields = { stream: true, messages: hello }
  const lock = JSON.stringify({ model: 'silent', ...fields, max_tokens: maxOutputTokens })
  const dear = JSON.stringify({ model: 'end', stream: true, ...body, max_tokens: 16 })
  const away = new AbortController()
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
  await settledBalance(gateway, account)
}

/** An account that owes gets 402 on every gateway until a top-up has paid the debt; free models still work. */
export async function playDebt(world: World, random: Random): Promise<readonly Result[]> {
  const [gateway, other] = world.gateways
  const account = await gateway.account(seemingTokens)
  const strategy = {
    name: 'a debt',
    item: 2,
    model: 'end',
    leaving: stays,
    account,
    body: () => ({ ...dense(random, 10_000), stream: true, max_tokens: 16 }),
  } as const
  const made = await play(world, strategy, random)
  const faults: string[] = []
  const expect = async (model: string, wanted: string, when: string) => {
    const answer = await other.call(path, account.key, { model, messages: hello, max_tokens: 16 })
    const code = /"code":"(\w+)"/.exec(await answer.text())?.[1] ?? ''
    const found = `${answer.status} ${code}`.trim()
    if (found !== wanted) faults.push(`${when}: ${found}`)
  }
  const refusal = '402 insufficient_balance'
  if (made.owed === 0) faults.push('nothing is owed')
  await expect('end', refusal, 'in debt')
  await expect('free', '200', 'what is free')
  await topUp(gateway, account, Math.max(1, Math.floor(made.owed / 2)))
  await expect('end', refusal, 'half paid')
  await topUp(gateway, account, Math.ceil(made.owed / 2) + 1000)
  await expect('end', '200', 'all paid')
  const { owed, spent, balance } = await settledBalance(gateway, account)
  if (owed > 0 || balance < 0) faults.push(`still owed: ${owed}, balance ${balance}`)
  if (spent < made.truth) faults.push('never paid')
  const ending = 'tops up'
  return [
    made,
    { ...made, name: 'a debt, paid', ending, paid: spent, owed, fault: faults.join('; ') },
  ]
}

async function topUp(gateway: OwnProcess, { id }: Account, amount: number): Promise<void> {
  const answer = await gateway.admin('POST', `accounts/${id}/topup`, { amount })
  if (!answer.ok) throw new Error(`topup: ${answer.status} ${await answer.text()}`)
}
