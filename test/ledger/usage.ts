// Sums by hour and day, by model and key, and as one.

import t from 'tap'
import { readUsage } from '../../src/ledger/usage.ts'
import type { UsageList } from '../../src/ledger/usage.ts'
import { keys } from '../../src/redis/keys.ts'
import { inFlight } from '../fixtures/in-flight.ts'
import { makeAccount, openOn, request, topUp, usageList, used } from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'
import { until } from '../fixtures/until.ts'
import { withinOne } from '../fixtures/windows.ts'

t.test('usage', async (t) => {
  const { link, ledger } = await openOn(t)
  const { caller, from } = await withinOne(3_600_000, async () => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 1000)
    const from = Math.floor(Date.now() / 1000)
    for (const model of ['m', 'org/m 2', 'm']) {
      await ledger.settle(await ledger.admit(request(caller, 10, { model })), used(4))
    }
    const unused = { charge: 0, prompt: 0, cached: 0, completion: 0 }
    await ledger.settle(await ledger.admit(request(caller, 10)), unused)
    return { caller, from }
  })
  const to = from + 1
  const bucketOf = (seconds: number) => from - (from % seconds)

  t.test('by model, of an hour', async (t) => {
    t.same(await usageList(ledger, caller.ref, { from, to, bucket: 'hour', groupBy: 'model' }), {
      object: 'list',
      data: [
        ['m', 2],
        ['org/m 2', 1],
      ].map(([model, requests]) => ({
        object: 'billing.usage',
        start: bucketOf(3600),
        end: bucketOf(3600) + 3600,
        model,
        requests,
        prompt_tokens: 7 * Number(requests),
        cached_tokens: 2 * Number(requests),
        completion_tokens: 5 * Number(requests),
        cost: 4 * Number(requests),
      })),
      first_id: null,
      last_id: null,
      has_more: false,
    })
  })

  t.test('by key, and as one, of a day; what cost and used nothing is no request', async (t) => {
    const { data } = await usageList(ledger, caller.ref, {
      from,
      to,
      bucket: 'day',
      groupBy: 'key',
    })
    t.match(data, [{ key_id: `key_${caller.ref}`, requests: 3, cost: 12, start: bucketOf(86_400) }])
    const one = await usageList(ledger, caller.ref, { from, to, bucket: 'day' })
    t.match(one.data, [{ requests: 3, cost: 12 }])
    t.notOk('model' in (one.data[0] ?? {}))
  })

  t.test('of one model or key alone', async (t) => {
    const sums = async (filter: object) =>
      pick(
        (await usageList(ledger, caller.ref, { from, to, bucket: 'day', ...filter })).data,
        'requests',
      )
    t.same(await sums({ model: 'org/m 2' }), [1])
    t.same(await sums({ model: 'm', key: `key_${caller.ref}` }), [2])
    t.same(await sums({ model: 'm', key: 'key_other' }), [])
  })

  t.test('sums go by themselves: hours after 35 days, days after 400', async (t) => {
    const ttl = (key: string) => link.client.ttl(key)
    const day = 86_400
    t.ok(Math.abs((await ttl(keys.usageHour(caller.ref, Math.floor(from / 3600)))) - 35 * day) < 60)
    t.ok(Math.abs((await ttl(keys.usageDay(caller.ref, Math.floor(from / day)))) - 400 * day) < 60)
  })

  t.test('nothing where there was nothing, and not a thousand buckets at once', async (t) => {
    t.same((await usageList(ledger, 'nobody', { from, to, bucket: 'hour' })).data, [])
    const long = ledger.usage('nobody', { from: 0, to, bucket: 'hour' })
    await t.rejects(long, { code: 'invalid_parameter', param: 'from' })
    link.drop()
    await until(() => !link.up)
    await t.rejects(readUsage(link.client, 'x', { from, to, bucket: 'hour' }), {
      code: 'ledger_unavailable',
    })
  })
})

t.test('an account that asks many times has one answer in memory at a time', async (t) => {
  const { link } = await openOn(t)
  const { client } = link
  for (let hour = 0; hour < 10; hour++) await client.hset(keys.usageHour('a', hour), 'm|k', '1')
  const flights = inFlight(client, 'hgetall')
  const tenHours = { from: 0, to: 10 * 3600 - 1, bucket: 'hour' } as const
  await Promise.all(Array.from({ length: 20 }, () => readUsage(client, 'a', tenHours)))
  t.equal(flights.most, 10)
})

t.test('large buckets are read one after the other, and lists of an account, too', async (t) => {
  const { link } = await openOn(t)
  const row = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`m|key_${i}`, '1 2 0 3 5']))
  for (let hour = 0; hour < 3; hour++)
    await link.client.hset(keys.usageHour('large', hour), row(1500))
  await link.client.hset(keys.usageHour('large', 7), row(400))
  await link.client.hset(keys.usageHour('large', 9), row(200))
  const flights = inFlight(link.client, 'hgetall')
  const ended: number[] = []
  const read = async (i: number) => {
    const query = { from: 0, to: 36_000, bucket: 'hour' } as const
    const text = await readUsage(link.client, 'large', query)
    ended.push(i)
    return JSON.parse(text) as UsageList
  }
  const lists = await Promise.all([0, 1, 2, 3].map(read))
  for (const { data } of lists) t.same(pick(data, 'requests'), [1500, 1500, 1500, 400, 200])
  t.equal(flights.most, 2, 'the small ones are read together')
  t.same(ended, [0, 1, 2, 3])
})

t.test('a list is not read for a client that has left', async (t) => {
  const { link } = await openOn(t)
  const flights = inFlight(link.client, 'hlen')
  const query = { from: 0, to: 36_000, bucket: 'hour' } as const
  const gone = readUsage(link.client, 'x', query, {
    signal: AbortSignal.abort(new Error('left')),
  })
  await t.rejects(gone, { message: 'left' })
  t.equal(flights.most, 0)
})
