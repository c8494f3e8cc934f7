// src/cli/doctor/redis-writes.ts: on a real server whose memory is full, and by what servers answer.

import t from 'tap'
import { examineRedis } from '../../../src/cli/doctor/redis.ts'
import { judgeWrites } from '../../../src/cli/doctor/redis-writes.ts'
import { parseInfo } from '../../../src/redis/server-kind.ts'
import { startExamination } from '../../fixtures/examination.ts'
import { startNode } from '../../fixtures/redis-node.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'

t.test('a Redis whose memory is full, so that the gateways are 503, is a failure', async (t) => {
  const { client, port } = await startNode(t, { dir: await tempDir(t), args: [] })
  const address = { kind: 'single', host: '127.0.0.1', port, db: 0 } as const
  const writes = async () => {
    const { examination, lines } = startExamination()
    await examineRedis({ redis: address, data: '/nowhere' }, examination)
    return lines.find((line) => line.includes('redis writes'))
  }
  t.equal(await writes(), 'ok redis writes: it takes them; no maxmemory')
  await client.config('SET', 'maxmemory', '1')
  t.match(
    await writes(),
    /^fail redis writes: it takes none \(it uses \d+\.\d MiB of maxmemory 0\.0 MiB\): OOM .*; what costs something is 503$/,
  )
})

const mebi = 2 ** 20

t.test('a memory that is nearly full is a warning', (t) => {
  const info = (used: number) =>
    parseInfo(`role:master\r\nused_memory:${used}\r\nmaxmemory:${100 * mebi}\r\n`)
  t.match(judgeWrites(info(95 * mebi), ''), {
    verdict: 'warn',
    detail: /^it uses 95\.0 MiB of maxmemory 100\.0 MiB: /,
  })
  t.strictSame(judgeWrites(info(89 * mebi), ''), {
    verdict: 'ok',
    detail: 'it takes them; it uses 89.0 MiB of maxmemory 100.0 MiB',
  })
  t.end()
})

t.test('each reason for which a primary takes no writes is told; a replica takes none', (t) => {
  const primary = parseInfo('role:master\r\nmaxmemory:0\r\n')
  const reasons = ['MISCONF its disk is full.', 'NOREPLICAS too few', 'Command timed out']
  for (const reason of reasons) {
    t.strictSame(judgeWrites(primary, reason), {
      verdict: 'fail',
      detail: `it takes none (no maxmemory): ${reason.replace('.', '')}; what costs something is 503`,
    })
  }
  t.strictSame(judgeWrites(primary, 'ERR no such script'), {
    verdict: 'ok',
    detail: 'not tried, ERR no such script; no maxmemory',
  })
  const replica = parseInfo('role:slave\r\n')
  t.match(judgeWrites(replica, 'READONLY it is one'), { verdict: 'ok', detail: /replica/ })
  t.end()
})
