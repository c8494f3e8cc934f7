// Ten streams that together want eight times what their account has, on two processes, with holds in slices: the last
// token is spent and none beyond it, also when a process is killed meanwhile. `npm run test:long` plays 50 seeds.

import t from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { Account, TestGateway } from '../fixtures/gateway.ts'
import {
  Reading,
  ask,
  balanceOf,
  differencesOf,
  outputOnly,
  transactionsOf,
} from '../fixtures/money.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { until } from '../fixtures/until.ts'

const seeds = process.env.LONG ? 50 : 6
const killEach = 3
const balance = 5000
const streams = 10
const least = 16
const leaseMs = 1500

const words = (text: string) => text.split('"content":" a"').length - 1

interface Read {
  readonly status: number
  readonly text: string
  readonly wasCut: boolean
}

/** What a client got, up to where its gateway was killed. */
async function read(gate: TestGateway, { key }: Account, wanted: number): Promise<Read> {
  const answer = await gate.call('/v1/chat', key, ask(wanted, true)).catch(() => undefined)
  if (!answer) return { status: 0, text: '', wasCut: true }
  const reading = new Reading(answer)
  const { status } = answer
  return reading.end().then(
    (text) => ({ status, text, wasCut: false }),
    () => ({ status, text: '', wasCut: true }),
  )
}

const wants = (random: Random) => 3000 + random(2000)

t.test('the last token is spent, and none beyond it', async (t) => {
  const redis = await startRedis(t)
  // No stream gets a token before all have been admitted.
  let asked = 0
  let all = Promise.withResolvers<void>()
  const script = chat({ chunks: 5000, text: () => ' a' })
  const backend = await startBackend(t, async (call) => {
    if (++asked === streams) all.resolve()
    await all.promise
    return script(call)
  })
  const hold = (slice: number) => `{ lease: ${leaseMs}ms, hold: { mode: sliced, slice: ${slice} } }`
  const setup = (slice: number) => ({
    redis,
    yaml: [
      outputOnly(backend.url),
      `plugins: { metering: ${hold(slice)} }`,
      'log: { level: error }',
    ].join('\n'),
  })
  const stable = await spawnGateway(t, setup(1024))
  let victim = await spawnGateway(t, setup(256))
  for (let seed = 1; seed <= seeds; seed++) {
    const random = seeded(seed)
    const account = await stable.account(balance)
    const served = backend.served.completion
    asked = 0
    all = Promise.withResolvers()
    const gates = [stable, victim] as const
    const reading = Array.from({ length: streams }, (_, i) =>
      read(gates[i % 2 === 0 ? 0 : 1], account, wants(random)),
    )
    const isKill = seed % killEach === 0
    if (isKill) {
      const moment = random(balance)
      await until(() => backend.served.completion - served >= moment)
      await victim.kill()
    }
    const reads = await Promise.all(reading)
    const refused = reads.filter(({ status, wasCut }) => status !== 200 && !wasCut)
    t.same(refused, [], `seed ${seed}: nobody is refused at the start`)
    if (isKill) victim = await spawnGateway(t, setup(256))
    await until(async () => (await balanceOf(stable, account)).reserved === 0)
    // What a dead process held comes back, and is spent like all other money.
    while ((await balanceOf(stable, account)).balance >= least) {
      reads.push(await read(stable, account, wants(random)))
    }
    // On a machine that stands still for a lease, a living hold is charged by its checkpoint, and corrected at its end.
    const spent = (await transactionsOf(stable, account)).filter(({ type }) => type !== 'topup')
    const charged = spent.reduce((all, { amount }) => all - amount, 0)
    const after = await balanceOf(stable, account)
    const delivered = reads.reduce((all, { text }) => all + words(text), 0)
    t.equal(charged, balance - after.balance, `seed ${seed}: what is charged is what is gone`)
    t.ok(after.balance >= 0 && after.balance < least && after.owed === 0, `${after.balance} left`)
    t.ok(delivered <= charged && charged <= backend.served.completion - served, 'paid, and made')
    if (!isKill) {
      t.equal(after.balance, 0, `seed ${seed}: nothing is left`)
      t.equal(delivered, balance, `seed ${seed}: all of it was delivered`)
      t.ok(reads.every(({ text }) => /"finish_reason":"length".*\n\ndata: \[DONE\]/.test(text)))
    }
  }
  t.same(await differencesOf(stable), [])
})
