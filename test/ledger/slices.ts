// When a sliced hold looks, asks, waits and ends; on a real ledger, with a stream that the test feeds.

import t from 'tap'
import type { Test } from 'tap'
import { Slices } from '../../src/ledger/slices.ts'
import type { SlicedStream } from '../../src/ledger/slices.ts'
import { openFor, request } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const server = await startRedis(t)
const price = { input: 1_000_000n, cachedInput: 1_000_000n, output: 1_000_000n, request: 0n }

/** A stream whose prompt is 10 tokens and was estimated as 20, and whose every rough token is `density` tokens. */
async function stream(
  t: Test,
  tokens: number,
  { density = 1, isShadow = false, more = {} as Partial<SlicedStream> } = {},
) {
  const { ledger, link, caller, sums } = await openFor(t, tokens, { on: server })
  const hold = await ledger.admit(request(caller, 120, { min: 30, isSliced: true, isShadow }))
  const stopped: string[] = []
  hold.onStop((reason) => stopped.push(reason))
  let rough = 0
  let paused: Promise<unknown> | undefined
  let calls = 0
  const slices = new Slices({
    hold,
    price,
    promptTokens: 20,
    outputTokens: 1000,
    slice: 100,
    roughTokens: () => rough,
    isFinished: () => false,
    countPrompt: async () => 10,
    count: async (prompt) => ({ prompt, cached: 0, completion: rough * density }),
    extend(...asked) {
      calls++
      return ledger.extend(...asked)
    },
    pause: (until) => (paused = until),
    ...more,
  })
  const used = () => ({ prompt: 10, cached: 0, completion: rough * density })
  hold.watch(() => ({ ...used(), charge: 10 + rough * density }))
  /** As the relay does: nothing comes while the stream is paused. Resolves with how much came before it was stopped. */
  const feed = async (most: number) => {
    while (rough < most && stopped.length === 0) {
      rough++
      if (rough >= slices.alarm.at) slices.alarm.reached()
      // So an extension is on its way while more comes.
      await Promise.resolve()
      while (paused) {
        const until = paused
        await until
        if (paused === until) paused = undefined
      }
    }
    return rough
  }
  return { ledger, link, caller, hold, slices, used, feed, stopped, sums, calls: () => calls }
}

t.test(
  'with money enough a stream is never stopped, and holds little more than it uses',
  async (t) => {
    const { hold, feed, stopped, calls } = await stream(t, 100_000)
    t.equal(await feed(500), 500)
    t.same(stopped, [])
    t.ok(hold.amount >= 510 && hold.amount <= 630, `holds ${hold.amount}`)
    t.ok(calls() <= 2 + 500 / 50, `${calls()} calls`)
  },
)

t.test('all that is held and available is used, and the prompt costs what it has', async (t) => {
  const { ledger, hold, feed, stopped, used, sums } = await stream(t, 300)
  t.equal(await feed(1000), 290)
  t.same(stopped, ['insufficient_balance'])
  await ledger.settle(hold, { ...used(), charge: 300, cut: true })
  t.same(await sums(), { balance: 0, reserved: 0, available: 0, owed: 0 })
})

t.test(
  'tokens that are denser than the rough count pass the hold by one event at most',
  async (t) => {
    const { feed, stopped } = await stream(t, 300, { density: 3 })
    t.equal(await feed(1000), 97, '10 + 97 × 3 is one more than 300')
    t.same(stopped, ['insufficient_balance'])
  },
)

t.test('a stream that may have no more output needs no further look', async (t) => {
  const { slices, feed, calls } = await stream(t, 100_000)
  await feed(1000)
  t.equal(slices.alarm.at, Infinity)
  const asked = calls()
  await feed(1100)
  t.equal(calls(), asked)
})

t.test('without Redis a stream goes on, and asks again a slice later', async (t) => {
  const { link, feed, stopped, hold, calls } = await stream(t, 300)
  const { amount } = hold
  link.drop()
  t.equal(await feed(900), 900)
  t.same(stopped, [])
  t.equal(hold.amount, amount)
  t.ok(calls() <= 1 + 900 / 50)
})

t.test('what cannot be counted is taken as the rough count has it', async (t) => {
  const fails = () => Promise.reject(new Error('no'))
  const { feed, stopped } = await stream(t, 300, { more: { countPrompt: fails, count: fails } })
  t.equal(await feed(1000), 280, 'with the prompt as estimated')
  t.same(stopped, ['insufficient_balance'])
})

t.test('a call that brings nothing stops no stream before its prompt is counted', async (t) => {
  const { ledger, caller, hold, feed, stopped } = await stream(t, 300)
  t.equal(hold.amount, 37)
  await ledger.admit(request(caller, 263))
  t.equal(await feed(1000), 27)
  t.same(stopped, ['insufficient_balance'])
})

t.test('in shadow mode a stream whose money runs out goes on, and asks no more', async (t) => {
  const { ledger, hold, feed, stopped, sums, calls } = await stream(t, 300, { isShadow: true })
  t.equal(await feed(400), 400)
  t.ok(hold.wouldStop)
  const before = calls()
  t.equal(await feed(900), 900)
  t.equal(calls(), before)
  t.same(stopped, [])
  await ledger.settle(hold, { charge: 910, prompt: 10, cached: 0, completion: 900 })
  t.same(await sums(), { balance: 0, reserved: 0, available: 0, owed: 0 })
})

t.test('a finished stream is not stopped for money', async (t) => {
  let isFinished = false
  const more = { isFinished: () => isFinished }
  const { feed, stopped } = await stream(t, 300, { more })
  await feed(100)
  isFinished = true
  t.equal(await feed(400), 400)
  t.same(stopped, [])
})

t.test('a hold that was opened again with less asks before it is stopped', async (t) => {
  const { hold, feed, stopped } = await stream(t, 100_000)
  await feed(40)
  hold.reopened(45)
  t.equal(await feed(300), 300)
  t.same(stopped, [])
})
