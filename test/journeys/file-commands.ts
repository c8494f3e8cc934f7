// What a file costs Redis: each command of an upload and of a download, those within scripts included. One that is added
// is seen here.

import t from 'tap'
import type { Test } from 'tap'
import { isCluster } from '../../src/redis/client.ts'
import { keys } from '../../src/redis/keys.ts'
import { callerOf, startFiles } from '../fixtures/files-http.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { until } from '../fixtures/until.ts'

/** Notes what Redis carries out for the caller's account: a line for each flight, with the commands of its script. */
async function open(t: Test) {
  const { redis, own, url } = await startFiles(t)
  const { client } = await connectLink(t, redis.socket)
  if (isCluster(client)) throw new Error('a Cluster')
  const monitor = await client.monitor()
  t.teardown(() => monitor.disconnect())
  const seen: { readonly source: string; readonly words: readonly string[] }[] = []
  monitor.on('monitor', (_time: string, words: readonly string[], source: string) => {
    seen.push({ source, words })
  })
  // What Redis carried out is told to the monitor in its order, but may reach it after the answer has reached the caller.
  const allSeen = async (mark: string) => {
    await client.echo(mark)
    await until(() => seen.some(({ words }) => words[1] === mark))
  }
  const flightsOf = async (work: () => Promise<unknown>) => {
    await allSeen('begin')
    seen.length = 0
    await work()
    await allSeen('end')
    const flights: { isOurs: boolean; names: string[] }[] = []
    for (const { source, words } of seen) {
      const name = (words[0] ?? '').toLowerCase()
      // What the gateway does in the background names other keys.
      if (source === 'lua') flights.at(-1)?.names.push(name)
      else flights.push({ isOurs: words.join(' ').includes(own.ref), names: [name] })
    }
    return flights.filter(({ isOurs }) => isOurs).map(({ names }) => names.join(' '))
  }
  return { own, url, client, flightsOf }
}

const identify = 'evalsha hmget hmget incr'

t.test('an upload takes 20 commands, and a download 6', async (t) => {
  const { own, flightsOf } = await open(t)
  const content = 'x'.repeat(16_384)
  // The first one marks the key as used, and begins its minute.
  await own.make({ content })
  let id = ''
  const upload = await flightsOf(async () => ({ id } = await own.make({ content })))
  t.strictSame(upload, [
    identify,
    'evalsha time exists hmget hmget hset zadd',
    'evalsha hmget exists zrem hset zadd zadd hset hdel',
  ])
  t.equal(upload.join(' ').split(' ').length, 20)
  const download = await flightsOf(async () => {
    t.equal(await (await own.call(`GET /${id}`)).text(), content)
  })
  t.strictSame(download, [identify, 'hgetall', 'exists'])
  t.equal(download.join(' ').split(' ').length, 6)
})

t.test(
  'storage that needs money costs no more; the first file of a session costs three',
  async (t) => {
    const { own, url, client, flightsOf } = await open(t)
    const content = 'x'.repeat(16_384)
    await own.make({ content })
    await client.hset(keys.storage(own.ref), 'used', 2 ** 28)
    const many = await flightsOf(() => own.make({ content }))
    t.equal(many.join(' ').split(' ').length, 20)
    const other = await callerOf({ url }, own.key)
    const first = await flightsOf(() => other.make({ content }))
    t.equal(first.at(-1), 'evalsha hmget exists pttl time zrem hset zadd zadd hset hdel zadd')
    t.equal(first.join(' ').split(' ').length, 23)
  },
)
