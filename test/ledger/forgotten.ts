// Promise 8: a Redis that forgot its last acknowledged writes. Under everysec a killed Redis loses nothing that was
// written, so the test makes the loss: the last 200 commands are cut off its append-only file.

import { cp } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Hold } from '../../src/ledger/hold.ts'
import { keys } from '../../src/redis/keys.ts'
import { cutOff, durable } from '../fixtures/aof.ts'
import {
  connectLink,
  makeAccount,
  openFor,
  openOn,
  request,
  topUp,
  untilBalance,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

t.test('8 Redis forgets its last 200 commands: what it acknowledged comes back once', async (t) => {
  const server = await startRedis(t, { args: durable })
  const { link, ledger } = await openOn(t, { on: server })
  const [caller, debtor] = [await makeAccount(link), await makeAccount(link)]
  await topUp(ledger, caller, 10_000)
  const running: Hold[] = []
  for (let i = 0; i < 20; i++) {
    const hold = await ledger.admit(request(caller, 100))
    if (i % 5 === 4) running.push(hold)
    else await ledger.settle(hold, used(10 + i))
    if (i === 15) await topUp(ledger, caller, 777)
  }
  await ledger.settle(await ledger.admit(request(debtor, 0)), used(500))
  await topUp(ledger, debtor, 200)
  const before = await ledger.balance(caller.ref)
  const journal = await link.client.xlen(keys.journal(caller.ref))
  t.equal(before.reserved, 400)
  await server.kill()
  t.ok((await cutOff(server.dir, 200)) >= 200)

  // The check uses a copy, since the ledger sends again as soon as the original answers.
  const copy = await tempDir(t)
  await cp(join(server.dir, 'appendonlydir'), join(copy, 'appendonlydir'), { recursive: true })
  const looker = await connectLink(t, (await startRedis(t, { args: durable, dir: copy })).socket)
  const [granted, left] = await Promise.all([
    looker.client.hget(keys.account(caller.ref), 'granted'),
    looker.client.xlen(keys.journal(caller.ref)),
  ])
  t.equal(granted, '10000', 'an acknowledged top-up is forgotten')
  t.ok(left < journal - 5, 'and so are charges')
  t.equal(await looker.client.hget(keys.account(debtor.ref), 'owed'), null, 'and a debt')

  await server.restart()
  await untilBalance(ledger, caller)
  const { granted: again, spent, reserved } = await ledger.balance(caller.ref)
  t.same(
    { granted: again, spent, reserved },
    { granted: before.granted, spent: before.spent, reserved: before.reserved },
  )
  t.equal(await link.client.xlen(keys.journal(caller.ref)), journal)
  t.match(await ledger.balance(debtor.ref), { owed: 300, granted: 200, spent: 200, available: 0 })
  t.same((await ledger.audit(debtor.ref)).differences, [])
  for (const hold of running)
    t.match(await ledger.settle(hold, used(50)), { charge: 50, owed: 0, isWaiting: false })
  t.match(await ledger.balance(caller.ref), { spent: before.spent + 200, reserved: 0 })
  t.same((await ledger.audit(caller.ref)).differences, [])
})

t.test('8 an adjustment that Redis forgot is made when the tokens it took are back', async (t) => {
  const server = await startRedis(t, { args: durable })
  const { ledger, caller, ref } = await openFor(t, 100, { on: server })
  const other = await openOn(t, { on: server })
  const cover = { ref, idempotencyId: 'cover', amount: 900, type: 'topup' } as const
  await other.ledger.credit(cover)
  await ledger.credit({ ref, idempotencyId: 'take', amount: -1000, type: 'adjustment' })
  other.link.drop()
  await server.kill()
  // The whole of the adjustment, and of the top-up before it.
  await cutOff(server.dir, 6)

  await server.restart()
  await untilBalance(ledger, caller, { balance: 100 })
  // Made again here in place of the other gateway, which would send it when it is back.
  await ledger.credit(cover)
  await untilBalance(ledger, caller, { balance: 0 })
  t.match(await ledger.balance(ref), { granted: 0, owed: 0, available: 0 })
  t.match(await ledger.audit(ref), { late: 0, entries: 3, differences: [] })
})
