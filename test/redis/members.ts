import { Redis } from 'ioredis'
import t from 'tap'
import { readMembers } from '../../src/redis/members.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const up = { isUpwards: true, count: 2 }
const down = { isUpwards: false, count: 2 }

t.test('members are read from a cursor on, in both directions', async (t) => {
  const server = await startRedis(t)
  const redis = new Redis(server.socket, { maxRetriesPerRequest: 0 })
  t.teardown(() => redis.disconnect())
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
