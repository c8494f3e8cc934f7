// Sums by hour and day, by model and key, and as one.

import t from 'tap'
import type { Test } from 'tap'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { sendOrder, settleOrder } from '../../src/ledger/orders.ts'
import { readUsage } from '../../src/ledger/usage.ts'
import type { UsageQuery } from '../../src/ledger/usage-query.ts'
import type { UsageList, UsageRow } from '../../src/ledger/usage.ts'
import { accountKeys, keys } from '../../src/redis/keys.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import { startClockProxy } from '../fixtures/clock-proxy.ts'
import { inFlight } from '../fixtures/in-flight.ts'
import {
  connectLink,
  makeAccount,
  makeHold,
  newHoldId,
  openOn,
  request,
  topUp,
  usageList,
  used,
} from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'
import { seeded } from '../fixtures/random.ts'
import { startRedis } from '../fixtures/redis-server.ts'
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

  t.test('sums of a day go by themselves after 400 days', async (t) => {
    const ttl = (key: string) => link.client.ttl(key)
    const day = 86_400
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
  await client.hset(keys.usageDay('a', 0), 'm|k', '10')
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
  for (const day of [0, 1, 2]) await link.client.hset(keys.usageDay('large', day), row(1500))
  await link.client.hset(keys.usageHour('large', 50), row(1))
  const flights = inFlight(link.client, 'hgetall')
  const ended: number[] = []
  const read = async (i: number) => {
    const query = { from: 0, to: 100 * 3600, bucket: 'hour' } as const
    const text = await readUsage(link.client, 'large', query)
    ended.push(i)
    return JSON.parse(text) as UsageList
  }
  const lists = await Promise.all([0, 1, 2, 3].map(read))
  for (const { data } of lists) t.same(pick(data, 'requests'), [1500, 1500, 1500, 400, 200, 1])
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

const hourMs = 3_600_000
const dayMs = 24 * hourMs

const clock = await startClockProxy(t, (await startRedis(t)).socket)

interface Charge {
  readonly model?: string
  readonly keyId?: string
  readonly isWaived?: boolean
}

/** Redis' clock is set to hours from tomorrow's noon. The scripts are called without a gateway, for an account that has nothing: what it does not owe is waived. */
async function openAtNoon(t: Test) {
  const link = await connectLink(t, clock.socket)
  const { client } = link
  const scripts = createScripts({ link, library: ledgerScripts })
  const noon = (Math.ceil(Date.now() / dayMs) * dayMs + dayMs / 2) / hourMs
  const { ref } = await makeAccount(link)
  let now = 0
  const at = (hour: number) => {
    now = (noon + hour + 0.5) * hourMs
    return clock.set(Math.floor((now - Date.now()) / 1000))
  }
  await at(0)
  const newId = () => `${now.toString(16).padStart(12, '0')}${newHoldId().slice(12)}`
  const settle = async (
    charge: number,
    { model = 'm', keyId = 'key_1', isWaived }: Charge = {},
  ) => {
    const meta = isWaived ? '{"shadow":true}' : '{}'
    const hold = makeHold({ id: newId(), ref, model, keyId, meta })
    t.match(await sendOrder(scripts, settleOrder(hold, used(charge))), { word: 'ok' })
  }
  const rows = async (bucket: 'hour' | 'day', more: Partial<UsageQuery> = {}) => {
    const query = { from: (noon - 36) * 3600, to: (noon + 36) * 3600, bucket, ...more }
    return (JSON.parse(await readUsage(client, ref, query)) as UsageList).data
  }
  /** Each row's hour or day from noon or its day, with its requests and cost. */
  const read = async (bucket: 'hour' | 'day') =>
    (await rows(bucket)).map(({ start, requests, cost }) => {
      const hours = start / 3600 - noon
      return [bucket === 'hour' ? hours : (hours + 12) / 24, requests, cost]
    })
  const hourName = (hour: number) => keys.usageHour(ref, noon + hour)
  const dayName = (hour: number) => keys.usageDay(ref, Math.floor((noon + hour) / 24))
  return { client, scripts, ref, noon, at, newId, settle, rows, read, hourName, dayName }
}

t.test('an hour that has ended moves when the next settlement comes', async (t) => {
  const { client, at, settle, read, hourName, dayName, noon } = await openAtNoon(t)
  const field = 'm|key_1|all'
  await settle(4)
  await settle(4)
  t.equal(await client.hget(dayName(0), field), `2 14 4 10 8 0 ${noon} 0 0 0 0 0 0`)
  t.equal(await client.exists(hourName(0)), 0)
  t.same(await read('hour'), [[0, 2, 8]])
  await at(3)
  await settle(5, { isWaived: true })
  t.equal(await client.hget(dayName(0), field), `1 7 2 5 5 5 ${noon + 3} 2 14 4 10 8 0`)
  t.same(await client.hgetall(hourName(0)), { [field]: '2 14 4 10 8 0' })
  const ttl = await client.ttl(hourName(0))
  t.ok(Math.abs(ttl - 36 * 86_400) < 60, `${ttl} s: a day more than rows are shown`)
  t.same(await read('hour'), [
    [0, 2, 8],
    [3, 1, 5],
  ])
  t.same(await read('day'), [[0, 3, 13]])
})

t.test('a day that has ended keeps its last hour', async (t) => {
  const { at, settle, read } = await openAtNoon(t)
  for (const hour of [11, 12, 13]) {
    await at(hour)
    await settle(hour)
  }
  t.same(await read('hour'), [
    [11, 1, 11],
    [12, 1, 12],
    [13, 1, 13],
  ])
  t.same(await read('day'), [
    [0, 1, 11],
    [1, 2, 25],
  ])
})

t.test('sums that nobody could have written count as none', async (t) => {
  const { client, at, settle, read, hourName, dayName } = await openAtNoon(t)
  await client.hset(dayName(0), 'm|key_1|all', '1 2 3')
  await settle(4)
  await client.hset(hourName(1), 'm|key_1|all', 'x')
  await at(1)
  await settle(5)
  t.same(await read('hour'), [
    [0, 1, 4],
    [1, 1, 5],
  ])
  t.same(await read('day'), [[0, 2, 9]])
})

t.test('no sum gets above what a number holds exactly', async (t) => {
  const { client, at, settle, dayName, noon } = await openAtNoon(t)
  const most = Number.MAX_SAFE_INTEGER
  const near = `1 7 2 5 ${most - 1} ${most - 1}`
  await client.hset(dayName(0), 'm|key_1|all', `${near} ${noon} ${near}`)
  await settle(5, { isWaived: true })
  const full = `2 14 4 10 ${most} ${most}`
  t.equal(await client.hget(dayName(0), 'm|key_1|all'), `${full} ${noon} ${near}`)
  await at(1)
  await settle(5, { isWaived: true })
  t.equal(
    await client.hget(dayName(0), 'm|key_1|all'),
    `1 7 2 5 5 5 ${noon + 1} 3 21 6 15 ${most} ${most}`,
  )
})

t.test(
  'holds that are reaped in one call add to the same sums, also when the hour has ended',
  async (t) => {
    const { client, scripts, ref, at, newId, settle, read } = await openAtNoon(t)
    const expire = async (keyId: string, charge: number) => {
      const id = newId()
      const row = `0 ${charge} 7 2 5 ${keyId} m {} 0000000000001`
      await client.hset(keys.holdRows(ref), id, row)
    }
    await settle(4)
    await at(1)
    for (const [keyId, charge] of [
      ['key_1', 1],
      ['key_2', 10],
      ['key_1', 2],
      ['key_1', 3],
    ] as const)
      await expire(keyId, charge)
    t.match(await scripts.run('reap', accountKeys(ref), ['1']), { values: ['ok', Number, 4] })
    t.same(await read('hour'), [
      [0, 1, 4],
      [1, 4, 16],
    ])
    t.same(await read('day'), [[0, 5, 20]])
  },
)

t.test('an hour that has ended moves although Redis is full', async (t) => {
  const { client, at, settle, read } = await openAtNoon(t)
  await settle(4)
  await at(1)
  await client.config('SET', 'maxmemory', '1')
  await settle(5)
  await client.config('SET', 'maxmemory', '0')
  t.same(await read('hour'), [
    [0, 1, 4],
    [1, 1, 5],
  ])
})

const seed = Number(process.env['SEED'] ?? 7)

t.test(`the clock goes anywhere, and older gateways write too; seed ${seed}`, async (t) => {
  const { client, at, settle, rows, noon, hourName, dayName } = await openAtNoon(t)
  const random = seeded(seed)
  const sums = { hour: new Map<string, UsageRow>(), day: new Map<string, UsageRow>() }
  let hour = 0
  const count = (bucket: 'hour' | 'day', charge: number, { model, keyId, isWaived }: Charge) => {
    const seconds = bucket === 'hour' ? 3600 : 86_400
    const start = Math.floor(((noon + hour) * 3600) / seconds) * seconds
    const group = `${start} ${model} ${keyId}`
    const before = sums[bucket].get(group)
    const waived = (before?.waived ?? 0) + (isWaived ? charge : 0)
    sums[bucket].set(group, {
      object: 'billing.usage',
      start,
      end: start + seconds,
      ...(model !== undefined && { model }),
      requests: (before?.requests ?? 0) + 1,
      prompt_tokens: (before?.prompt_tokens ?? 0) + 7,
      cached_tokens: (before?.cached_tokens ?? 0) + 2,
      completion_tokens: (before?.completion_tokens ?? 0) + 5,
      cost: (before?.cost ?? 0) + charge,
      ...(waived > 0 && { waived }),
    })
  }
  /** As a gateway from before adds to its own fields. */
  const addBefore = async (name: string, charge: number, { model, keyId, isWaived }: Charge) => {
    const field = `${model}|${keyId}`
    const found = (await client.hget(name, field))?.split(' ').map(Number) ?? [0, 0, 0, 0, 0]
    const more = [1, 7, 2, 5, charge]
    await client.hset(name, field, found.map((word, i) => word + (more[i] ?? 0)).join(' '))
    if (!isWaived) return
    const last = Number((await client.hget(name, `${field}|waived`))?.split(' ')[5] ?? 0)
    await client.hset(name, `${field}|waived`, `0 0 0 0 0 ${last + charge}`)
  }
  for (let i = 0; i < 400; i++) {
    if (random(3) === 0) {
      hour = random(4) === 0 ? random(50) - 25 : Math.min(25, Math.max(-25, hour + random(3) - 1))
      await at(hour)
    }
    const charge = 1 + random(9)
    const of = { model: `m${random(2)}`, keyId: `key_${random(2)}`, isWaived: random(4) === 0 }
    if (random(4) > 0) await settle(charge, of)
    else for (const name of [hourName(hour), dayName(hour)]) await addBefore(name, charge, of)
    for (const bucket of ['hour', 'day'] as const) count(bucket, charge, of)
    if (i % 40 !== 39) continue
    for (const bucket of ['hour', 'day'] as const) {
      const found = []
      for (const keyId of ['key_0', 'key_1'])
        for (const row of await rows(bucket, { key: keyId, groupBy: 'model' }))
          found.push([`${row.start} ${row.model} ${keyId}`, row] as const)
      t.same(new Map(found), sums[bucket], `by ${bucket}, after ${i}`)
    }
  }
})

t.test('what moves while a list is read is there once', async (t) => {
  for (const [later, name] of [
    [1, 'forth'],
    [-1, 'back'],
  ] as const) {
    for (let step = 0; ; step++) {
      const { client, at, settle, read } = await openAtNoon(t)
      await settle(4)
      await at(later)
      await settle(5)
      await at(0)
      await settle(6)
      await at(later)
      let calls = 0
      for (const call of ['hlen', 'hgetall'] as const) {
        const real = client[call].bind(client) as (name: string) => Promise<never>
        t.intercept(client, call, {
          value: async (name: string) => {
            if (calls++ === step) await settle(10)
            return real(name)
          },
        })
      }
      const found = new Map((await read('hour')).map(([hour, , cost]) => [hour, cost]))
      t.equal(found.get(0), 10, `${name}, at step ${step}`)
      t.ok([5, 15].includes(found.get(later) ?? 0), `${name}, at step ${step}`)
      if (calls <= step) break
    }
  }
})

t.test('an hour of more than 35 days ago has no row once a part of it may have gone', async (t) => {
  const { link } = await openOn(t)
  const now = Math.floor(Date.now() / hourMs)
  const hours = async (ago: number) => {
    const hour = now - ago
    const ref = `ago${ago}`
    const field = 'm|k|all'
    const day = Math.floor(hour / 24)
    await link.client.hset(keys.usageDay(ref, day), field, `1 0 0 0 1 0 ${hour} 1 0 0 0 1 0`)
    await link.client.hset(keys.usageHour(ref, hour - 1), field, '1 0 0 0 1 0')
    const query = { from: (hour - 1) * 3600, to: (hour + 1) * 3600, bucket: 'hour' } as const
    const { data } = JSON.parse(await readUsage(link.client, ref, query)) as UsageList
    return data.map(({ start }) => now - start / 3600)
  }
  const inDay = (ago: number) => (now - ago) % 24 > 0
  const young = inDay(830) ? 830 : 829
  t.same(await hours(young), [young + 1, young])
  const old = inDay(850) ? 850 : 851
  t.same(await hours(old), [old + 1])
})
