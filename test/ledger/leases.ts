// Checkpoints of many holds: in chunks of an account, and without an unhandled rejection when Redis goes away
// meanwhile.

import { mock } from 'node:test'
import t from 'tap'
import { Leases } from '../../src/ledger/leases.ts'
import type { Hold } from '../../src/ledger/hold.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { createScripts, unavailable } from '../../src/redis/scripts.ts'
import { makeHold } from '../fixtures/ledger.ts'

function open(answer: (args: readonly string[]) => Promise<unknown>, leaseMs = 30_000) {
  const sent: (readonly string[])[] = []
  const evalsha = (_sha: string, keyCount: number, ...words: readonly unknown[]) => {
    const args = words.slice(keyCount).map(String)
    sent.push(args)
    return answer(args)
  }
  const scripts = createScripts({ library: ledgerScripts, link: Object({ client: { evalsha } }) })
  const reopened: string[] = []
  const openAgain = async ({ id }: Hold) => void reopened.push(id)
  let ticks = 0
  const leases = new Leases({
    scripts,
    leaseMs,
    isUp: () => true,
    openAgain,
    onTick: async () => void ticks++,
  })
  return {
    leases,
    sent,
    reopened,
    get ticks() {
      return ticks
    },
  }
}

const all = (word: string) => async (args: readonly string[]) => [
  'ok',
  1,
  'active',
  ...args.slice(1).map(() => word),
]

t.test('a command has up to a hundred holds, of one account', async (t) => {
  const { leases, sent } = open(all('ok'))
  for (let i = 0; i < 250; i++) leases.add(makeHold({ id: `a${i}` }))
  leases.add(makeHold({ id: 'b', ref: 'other' }))
  t.same(await leases.renew(), [])
  t.same(sent.map(({ length }) => length - 1).sort(), [1, 100, 100, 50])
})

t.test('a checkpoint has the charge, then prompt, cached and completion', async (t) => {
  const { leases, sent } = open(all('ok'))
  const hold = makeHold({ id: 'a' })
  hold.watch(() => ({ charge: 9.5, prompt: 30, cached: 10, completion: Number.NaN }))
  leases.add(hold)
  await leases.renew()
  t.strictSame(sent, [['30000', 'a 10 30 10 0']])
})

t.test('holds that are gone are named, but not those settled meanwhile', async (t) => {
  const { leases, reopened } = open(all('gone'))
  const [one, two] = [makeHold({ id: '1' }), makeHold({ id: '2' })]
  leases.add(one)
  leases.add(two)
  const renewing = leases.renew()
  t.equal(leases.remove(two), true)
  t.equal(leases.remove(two), false)
  const lost = await renewing
  t.same(lost, [one])
  await leases.reopen(lost)
  t.same(reopened, ['1'])
})

t.test('a Redis that goes away amid hundreds of accounts fails the round alone', async (t) => {
  const { leases } = open(() => Promise.reject(unavailable()))
  for (let i = 0; i < 300; i++) leases.add(makeHold({ id: `${i}`, ref: `r${i}` }))
  await t.rejects(leases.renew(), { code: 'ledger_unavailable' })
})

t.test('a short lease is renewed three times in its life, a long one each second', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const roundsIn = async (ms: number, leaseMs: number, answer = all('ok')) => {
    const it = open(answer, leaseMs)
    it.leases.add(makeHold({ id: '1' }))
    it.leases.start()
    for (let passed = 0; passed < ms; passed += 10) {
      mock.timers.tick(10)
      await new Promise(setImmediate)
    }
    it.leases.stop()
    return it.ticks
  }
  const short = await roundsIn(600, 600)
  t.ok(short >= 3 && short <= 4, `${short}`)
  const long = await roundsIn(3000, 30_000)
  t.ok(long >= 3 && long <= 4, `${long}`)
  const refusing = () => Promise.reject(unavailable())
  const refused = await roundsIn(3000, 30_000, refusing)
  t.ok(refused >= 3, `${refused} with a Redis that refuses`)
})

t.test('a round gauges each hold before it is renewed, and one that is settled not', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { leases, sent } = open(all('ok'))
  const hold = makeHold({ id: 'a' })
  let completion = 0
  const gauge = async () => void (completion = 7)
  hold.watch(() => ({ charge: 0, prompt: 0, cached: 0, completion }), gauge)
  leases.add(hold)
  leases.start()
  mock.timers.tick(1000)
  for (let i = 0; i < 5; i++) await new Promise(setImmediate)
  leases.stop()
  t.strictSame(sent, [['30000', 'a 0 0 0 7']])
})

t.test('a gauge that fails or hangs ends no lease', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const { leases, sent } = open(all('ok'))
  const [failing, hanging, behind] = ['a', 'b', 'c'].map((id) => makeHold({ id }))
  const read = () => ({ charge: 1, prompt: 1, cached: 0, completion: 0 })
  let calls = 0
  failing?.watch(read, () => Promise.reject(new Error('no')))
  hanging?.watch(read, () => {
    calls++
    return new Promise(() => undefined)
  })
  for (const hold of [failing, hanging, behind]) if (hold) leases.add(hold)
  leases.start()
  const passed = async (ms: number) => {
    for (let i = 0; i < ms; i += 100) {
      mock.timers.tick(100)
      await new Promise(setImmediate)
    }
  }
  await passed(3000 + 1000 + 200)
  t.same(
    sent.map(({ length }) => length),
    [4],
  )
  await passed(3000 + 1000 + 200)
  leases.stop()
  t.equal(sent.length, 2)
  t.equal(calls, 1, 'one pass at a time')
})
