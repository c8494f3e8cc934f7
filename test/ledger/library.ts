// Every Lua file of the ledger is in its library, documents itself, and prints no amounts.

import { readFileSync, readdirSync } from 'node:fs'
import t from 'tap'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { hourOfHold } from '../../src/ledger/orders.ts'
import { keys } from '../../src/redis/redis.ts'
import { connectLink, makeAccount, openLedger, request, used } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'

t.test('every script says its purpose, keys, arguments and reply', async (t) => {
  const { folder, scripts } = ledgerScripts
  const heads = new Set<string>(Object.values(scripts).flat())
  for (const file of readdirSync(folder)) {
    const name = file.replace('.lua', '')
    const text = readFileSync(new URL(file, folder), 'utf8')
    t.match(text, /^-- Purpose: /, name)
    t.notMatch(text, /cjson|tostring\(/, `${name} prints no amounts`)
    if (heads.has(name)) continue
    t.ok(Object.hasOwn(scripts, name), `${name} is in the library`)
    t.match(text, /\n-- KEYS: [^]*\n-- ARGV: [^]*\n-- Reply: /, name)
  }
})

t.test('the keys that the scripts derive are those that redis.ts names', async (t) => {
  const server = await startRedis(t)
  const link = await connectLink(t, server.socket)
  const ledger = await openLedger(t, { link })
  const caller = await makeAccount(link)
  const { ref, hmac } = caller
  const credit = { ref, idempotencyId: 'an id', amount: 100, type: 'topup' } as const
  await ledger.credit(credit)
  const settled = await ledger.admit(request(caller, 10))
  await ledger.settle(settled, used(5))
  await ledger.admit(request(caller, 10))
  const { start = 0 } = (await ledger.usage(ref, lastHour())).data[0] ?? {}
  const hour = start / 3600
  const names = [
    keys.account(ref),
    keys.key(ref, hmac),
    keys.holds(ref),
    keys.open(ref),
    keys.journal(ref),
    keys.settled(ref, hourOfHold(settled.id)),
    keys.credit(ref, credit.idempotencyId),
    keys.usageHour(ref, hour),
    keys.usageDay(ref, Math.floor(hour / 24)),
  ]
  t.same((await link.client.keys('*')).toSorted(), names.toSorted())
})

function lastHour() {
  const to = Math.floor(Date.now() / 1000)
  return { from: to - 3600, to, bucket: 'hour' } as const
}
