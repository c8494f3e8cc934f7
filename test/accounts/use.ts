import t from 'tap'
import { createUseReader } from '../../src/accounts/use.ts'
import { keys } from '../../src/redis/keys.ts'
import { makeAccount, openFor, unlimited } from '../fixtures/ledger.ts'

const plan = {
  ...unlimited,
  requestsPerMinute: 9,
  tokensPerMinute: 99,
  concurrency: 2,
  storageBytes: 1000,
  storageUnpaidBytes: 10,
}
const config = { plans: new Map([['default', plan]]), plugins: new Map() }

t.test('what an account uses now, of one moment', async (t) => {
  const { link, caller } = await openFor(t, 5)
  const read = createUseReader(link, config)
  const { ref } = caller
  const using = { ref, plan: 'gone', maxKeys: 4 }
  const minute = Math.floor(Date.now() / 60_000)
  await link.client.hset(keys.account(ref), { minute, requests: 3, tokens: 30 })
  await link.client.hset(keys.storage(ref), { used: 100, rows: 5 })
  await link.client.hset(keys.holdRows(ref), {
    a: `1 … {} ${Date.now() + 60_000}`,
    expired: '1 … {} 0000000000001',
  })
  const found = await read(using)
  t.match(found, {
    requests_per_minute: { limit: 9 },
    tokens_per_minute: { limit: 99 },
    concurrency: { limit: 2, used: 1 },
    storage: { limit: 1000, used: 105 },
    keys: { limit: 4 },
  })
  const isSameMinute = found.resets_at === (minute + 1) * 60
  t.equal(found.requests_per_minute.used, isSameMinute ? 3 : 0)
  await link.client.hset(keys.account(ref), { minute: minute - 1 })
  t.equal((await read(using)).requests_per_minute.used, 0, 'of another minute')
})

t.test('without money, less may be stored', async (t) => {
  const { link } = await openFor(t, 5)
  const { ref } = await makeAccount(link)
  const found = await createUseReader(link, config)({ ref, plan: 'default', maxKeys: 4 })
  t.strictSame(found.storage, { limit: 10, used: 0 })
})
