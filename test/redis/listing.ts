import t from 'tap'
import type { Page } from '../../src/http/page.ts'
import { readMembers, readPage } from '../../src/redis/listing.ts'
import type { Row } from '../../src/redis/listing.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { openSessions } from '../fixtures/sessions.ts'

const all = Array.from({ length: 100 }, (_, i) => `a${String(i).padStart(2, '0')}`)

async function start(t: Parameters<typeof openSessions>[0], rowOf = row, unreadableBytes = 1) {
  const { redis } = await openSessions(t)
  await redis.zadd('ids', ...all.flatMap((id) => [0, id]))
  let flights = 0
  const read = async (ids: readonly string[], room: number) => {
    flights++
    return fitting(ids.map(rowOf), { room, unreadableBytes })
  }
  const page = async (fields: Partial<Page>) => {
    const asked = { limit: 10, order: 'asc', ...fields } as const
    const list = await readPage(redis, { ref: 'a', key: 'ids', read }, asked)
    return { ids: list.data.map(({ id }) => id), has_more: list.has_more }
  }
  return { redis, page, flights: () => flights }
}

interface Fit {
  readonly room: number
  readonly unreadableBytes: number
}

/** As many rows as the script of messages returns, which is at least one. */
function fitting(rows: readonly Read[], { room, unreadableBytes }: Fit): readonly Read[] {
  let size = 0
  for (const [i, one] of rows.entries()) {
    const bytes = one === 'gone' ? 0 : one === 'unreadable' ? unreadableBytes : one.bytes
    if (size > 0 && size + bytes > room) return rows.slice(0, i)
    size += bytes
  }
  return rows
}

type Read = Row<{ readonly id: string }>
const row = (id: string): Read => ({ value: { id }, bytes: 1 })

t.test('pages in both directions have all rows once, even if the cursor is deleted', async (t) => {
  const { redis, page } = await start(t)
  for (const order of ['asc', 'desc'] as const) {
    const expected = order === 'asc' ? all : all.toReversed()
    const seen: string[] = []
    for (let after: string | undefined; ; after = seen.at(-1)) {
      const { ids, has_more } = await page({ order, limit: 30, ...(after && { after }) })
      seen.push(...ids)
      if (!has_more) break
    }
    t.strictSame(seen, expected, order)
    t.strictSame(await page({ order, before: expected[20] }), {
      ids: expected.slice(10, 20),
      has_more: true,
    })
    t.strictSame(await page({ order, before: expected[5] }), {
      ids: expected.slice(0, 5),
      has_more: false,
    })
  }
  await redis.zrem('ids', 'a50')
  t.strictSame((await page({ after: 'a50', limit: 1 })).ids, ['a51'])
  t.strictSame((await page({ before: 'a50', limit: 1 })).ids, ['a49'])
  t.strictSame((await page({ order: 'desc', after: 'a50', limit: 1 })).ids, ['a49'])
})

t.test('a full page has more only if there is another row', async (t) => {
  const { page } = await start(t)
  t.equal((await page({ limit: 100 })).has_more, false)
  t.equal((await page({ limit: 99 })).has_more, true)
  t.strictSame(await page({ after: 'a99' }), { ids: [], has_more: false })
})

t.test('rows that are gone are skipped and forgotten, unreadable ones only skipped', async (t) => {
  const isGone = (id: string) => id >= 'a05' && id < 'a60'
  const { redis, page } = await start(t, (id): Read => {
    if (isGone(id)) return 'gone'
    return id === 'a61' ? 'unreadable' : row(id)
  })
  const expected = [...all.slice(0, 5), 'a60', 'a62', 'a63', 'a64', 'a65']
  t.strictSame(await page({}), { ids: expected, has_more: true })
  t.strictSame(
    await redis.zrange('ids', '0', '-1'),
    all.filter((id) => !isGone(id)),
  )
  t.strictSame((await page({ before: 'a62', limit: 2 })).ids, ['a04', 'a60'])
})

t.test('a page of large rows ends early, and the next one continues after it', async (t) => {
  const { page, flights } = await start(t, (id) => ({ value: { id }, bytes: 3 * 2 ** 17 }))
  t.strictSame(await page({ limit: 100 }), { ids: ['a00', 'a01'], has_more: true })
  t.equal(flights(), 1)
  t.strictSame((await page({ after: 'a01', limit: 100 })).ids, ['a02', 'a03'])
})

t.test('a row that is larger than a page comes alone', async (t) => {
  const { page, flights } = await start(t, (id) => ({ value: { id }, bytes: 2 ** 21 }))
  t.strictSame(await page({}), { ids: ['a00'], has_more: true })
  t.equal(flights(), 1)
  t.strictSame(await page({ after: 'a98' }), { ids: ['a99'], has_more: false })
})

t.test('an unreadable row that fills a page is not a page of its own', async (t) => {
  const rowOf = (id: string): Read =>
    id < 'a03' ? 'unreadable' : { value: { id }, bytes: 2 ** 19 }
  const { page } = await start(t, rowOf, 2 ** 20)
  t.strictSame(await page({}), { ids: ['a03', 'a04'], has_more: true })
})

const up = { isUpwards: true, count: 2 }
const down = { isUpwards: false, count: 2 }

t.test('members are read from a cursor on, in both directions', async (t) => {
  const { client: redis } = await connectLink(t, (await startRedis(t)).socket)
  await redis.zadd('plain', 0, 'a1', 0, 'a2', 0, 'a4', 0, 'a5')
  await redis.zadd('more', 0, 'a1:x', 0, 'a2:x', 0, 'a4:x', 0, 'a5:x')
  const cases = [
    [{ ...up, cursor: undefined }, ['a1', 'a2']],
    [{ ...up, cursor: 'a2' }, ['a4', 'a5']],
    [{ ...up, cursor: 'a3' }, ['a4', 'a5']],
    [{ ...up, cursor: 'a5' }, []],
    [{ ...down, cursor: undefined }, ['a5', 'a4']],
    [{ ...down, cursor: 'a4' }, ['a2', 'a1']],
    [{ ...down, cursor: 'a3' }, ['a2', 'a1']],
    [{ ...down, cursor: 'a1' }, []],
  ] as const
  for (const [where, expected] of cases) {
    const name = JSON.stringify(where)
    t.strictSame(await readMembers(redis, 'plain', where), expected, name)
    const more = expected.map((id) => `${id}:x`)
    t.strictSame(await readMembers(redis, 'more', where), more, `${name} with more behind the id`)
  }
})

t.test('an account that asks for many pages has one of them in memory at a time', async (t) => {
  const { redis } = await start(t)
  let [reading, most] = [0, 0]
  const read = async (ids: readonly string[]) => {
    most = Math.max(most, ++reading)
    await new Promise(setImmediate)
    reading--
    return ids.map(row)
  }
  const rows = { ref: 'a', key: 'ids', read }
  const asked = { limit: 10, order: 'asc' } as const
  await Promise.all(Array.from({ length: 20 }, () => readPage(redis, rows, asked)))
  t.equal(most, 1)
})
