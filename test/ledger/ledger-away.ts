// Promise 7 of the ledger: Redis is away. New work is refused; settlements of that time wait on disk, and are charged
// once.

import { readdir, rename } from 'node:fs/promises'
import t from 'tap'
import { durable } from '../fixtures/aof.ts'
import { openFor, openOn, request, untilBalance, used } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

const page = { limit: 100, order: 'asc' } as const

t.test('7 Redis away: new work is refused, a settlement waits and is made once', async (t) => {
  const own = await startRedis(t, { args: durable })
  const { link, ledger, caller } = await openFor(t, 1000, { on: own })
  const hold = await ledger.admit(request(caller, 400))
  await own.kill()
  await until(() => !link.up)
  // Before the next turn: nothing is sent or waited for.
  const nextTurn = new Promise((resolve) => setImmediate(resolve))
  for (const call of [ledger.admit(request(caller, 1)), ledger.identify(caller)]) {
    const refusal = call.catch((error: unknown) => error)
    t.match(await Promise.race([refusal, nextTurn]), {
      code: 'ledger_unavailable',
      retryAfterMs: 1000,
    })
  }
  t.match(await ledger.settle(hold, used(150)), { charge: 150, isWaiting: true })
  t.equal(ledger.spool.size, 2, 'the top-up is still kept, and the settlement')
  await own.restart()
  await untilBalance(ledger, caller, { balance: 850 })
  t.match(await ledger.balance(caller.ref), { reserved: 0 })
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('7 Redis killed with settlements outstanding: each is charged once', async (t) => {
  const own = await startRedis(t, { args: durable })
  const { ledger, caller } = await openFor(t, 10_000, { on: own })
  const holds = await Promise.all(
    Array.from({ length: 50 }, () => ledger.admit(request(caller, 100))),
  )
  const settlements = holds.map((hold) => ledger.settle(hold, used(10)))
  await own.kill()
  const states = (await Promise.all(settlements)).map(({ isWaiting }) => isWaiting)
  t.comment(`${states.filter(Boolean).length} of 50 had to wait`)
  await own.restart()
  await untilBalance(ledger, caller, { balance: 9500, reserved: 0 })
  t.equal((await ledger.transactions(caller.ref, page)).data.length, 51)
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('7 Redis away until the process is gone: the next one charges the spool', async (t) => {
  const own = await startRedis(t, { args: durable })
  const spoolDir = await tempDir(t)
  const { link, ledger, caller } = await openFor(t, 1000, { on: own, spoolDir })
  const hold = await ledger.admit(request(caller, 400))
  await own.kill()
  await ledger.settle(hold, used(150))
  link.drop()
  await ledger.close(0)
  await own.restart()
  const [name = ''] = await readdir(spoolDir)
  // Pretends that its process is gone; in fact it still runs.
  await rename(
    `${spoolDir}/${name}`,
    `${spoolDir}/${name.replace(`-${process.pid}-`, '-4194305-')}`,
  )
  const next = await openOn(t, { on: own, spoolDir })
  await until(async () => (await next.ledger.balance(caller.ref)).balance === 850)
  t.equal((await next.ledger.balance(caller.ref)).reserved, 0)
})
