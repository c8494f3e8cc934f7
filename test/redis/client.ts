// src/redis/client.ts: the client of a primary that Sentinels name, on real Sentinels. Single servers are tested in
// connect.ts, Clusters in cluster.ts.

import t from 'tap'
import { placeOf } from '../../src/redis/client.ts'
import { connect } from '../../src/redis/connect.ts'
import { startSentinels } from '../fixtures/redis-sentinel.ts'
import { until } from '../fixtures/until.ts'

const group = await startSentinels(t)

for (const how of ['dies', 'hangs'] as const) {
  t.test(`a primary that ${how}: refused at once, then the next one is found`, async (t) => {
    await group.healthy()
    const said: string[] = []
    const say = (_: object, message: string) => void said.push(message)
    const link = await connect(group.config, { log: { info: say, warn: say } })
    t.teardown(() => link.close())
    const events: string[] = []
    link.onReady(() => events.push('ready'))
    link.onLost(() => events.push('lost'))
    await link.client.set('a', '1')
    const old = await group.primary()
    await old.client.wait(2, 1000)
    if (how === 'dies') await old.kill()
    else process.kill(old.pid, 'SIGSTOP')
    if (how === 'dies') {
      await until(() => !link.up)
      await t.rejects(link.client.get('a'), /isn't writeable/, 'nothing is queued')
    }
    await until(async () => (await group.primary()) !== old)
    await until(() => link.up && events.includes('ready'))
    t.strictSame(events.slice(0, 2), ['lost', 'ready'])
    await until(() =>
      link.client.get('a').then(
        (value) => value === '1',
        () => false,
      ),
    )
    await link.client.set('a', '2')
    t.equal(await (await group.primary()).client.get('a'), '2')
    t.ok(said.includes('Redis is connected again') || how === 'hangs')
    if (how === 'dies') await old.restart()
    else process.kill(old.pid, 'SIGCONT')
  })
}

t.test('Sentinels that are away, and a name that they do not know, are told', async (t) => {
  await group.healthy()
  const away = { ...group.config, sentinels: [{ host: '127.0.0.1', port: 1 }] }
  await t.rejects(
    connect(away, { waitMs: 300 }),
    /main, by the Sentinels 127\.0\.0\.1:1, .*unreachable/,
  )
  const unknown = connect({ ...group.config, name: 'other' }, { waitMs: 300 })
  await t.rejects(unknown, /other, by the Sentinels .* can't be used: /)
})

t.test('where Redis is, for messages', async (t) => {
  t.equal(placeOf({ kind: 'single', host: '::1', port: 6379, db: 0 }), '[::1]:6379')
  t.equal(placeOf({ kind: 'embedded' }, '/run/s'), '/run/s')
  t.equal(
    placeOf({
      kind: 'cluster',
      nodes: [
        { host: 'a', port: 1 },
        { host: 'b', port: 2 },
      ],
    }),
    'a:1, b:2',
  )
})
