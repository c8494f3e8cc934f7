// The Lua of the ledger.

import t from 'tap'
import { hourOfHold } from '../../src/ledger/hold-rows.ts'
import { keys } from '../../src/redis/keys.ts'
import { makeAccount, openOn, request, usageList, used } from '../fixtures/ledger.ts'

t.test('the keys that the scripts derive are those that keys.ts names', async (t) => {
  const { link, ledger } = await openOn(t)
  const caller = await makeAccount(link)
  const { ref, hmac } = caller
  const credit = { ref, idempotencyId: 'an id', amount: 100, type: 'topup' } as const
  await ledger.credit(credit)
  const settled = await ledger.admit(request(caller, 10))
  await ledger.settle(settled, used(5))
  await ledger.admit(request(caller, 10))
  const { start = 0 } = (await usageList(ledger, ref, lastHour())).data[0] ?? {}
  const hour = start / 3600
  // The next settlement moves an hour that has ended.
  const day = keys.usageDay(ref, Math.floor(hour / 24))
  const field = `m|key_${ref}|all`
  const sums = (await link.client.hget(day, field)) ?? ''
  await link.client.hset(day, field, sums.replace(` ${hour} `, ` ${hour - 1} `))
  await ledger.settle(await ledger.admit(request(caller, 10)), used(5))
  const names = [
    keys.account(ref),
    keys.key(ref, hmac),
    keys.holdRows(ref),
    keys.journal(ref),
    keys.settled(ref, hourOfHold(settled.id)),
    keys.credit(ref, credit.idempotencyId),
    keys.usageHour(ref, hour - 1),
    day,
  ]
  t.same((await link.client.keys('*')).toSorted(), names.toSorted())
})

function lastHour() {
  const to = Math.floor(Date.now() / 1000)
  return { from: to - 3600, to, bucket: 'hour' } as const
}
