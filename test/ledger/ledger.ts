// The promises of the ledger, each tried to be broken on a real Redis.

import t from 'tap'
import type { RedisServer } from '../fixtures/redis-server.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import {
  connectLink,
  makeAccount,
  newHoldId,
  openLedger,
  request,
  topUp,
  unlimited,
  until,
  used,
} from '../fixtures/ledger.ts'
import { keys } from '../../src/redis.ts'

let server: RedisServer

t.before(async () => {
  server = await startRedis(t)
})

const page = { limit: 100, order: 'asc' } as const

async function open() {
  const link = await connectLink(t, server.socket)
  return { link, ledger: await openLedger(t, { link }) }
}

t.test('a request holds what it wants, pays what it used, and gets the rest back', async (t) => {
  const { link, ledger } = await open()
  const caller = await makeAccount(link)
  await topUp(ledger, caller, 1000)
  const hold = await ledger.admit(request(caller, 400))
  t.equal(hold.amount, 400)
  t.match(await ledger.balance(caller.ref), { balance: 1000, reserved: 400, available: 600 })
  const settled = await ledger.settle(hold, { ...used(150), estimated: true })
  t.match(settled, { charge: 150, shortfall: 0, isWaiting: false })
  t.match(await ledger.balance(caller.ref), {
    balance: 850,
    reserved: 0,
    available: 850,
    granted: 1000,
    spent: 150,
  })
  const { data } = await ledger.transactions(caller.ref, page)
  t.match(data, [
    { type: 'topup', amount: 1000, balance_after: 1000 },
    {
      type: 'charge',
      amount: -150,
      balance_after: 850,
      model: 'm',
      estimated: true,
      request_id: 'req_1',
      usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12, cached_tokens: 2 },
    },
  ])
})
