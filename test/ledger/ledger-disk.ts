// A ledger whose disk refuses writes: entries wait in memory, and above a limit nothing more is admitted that would add
// entries.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { durable } from '../fixtures/aof.ts'
import { noFullDisk } from '../fixtures/full-disk.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const script = fileURLToPath(new URL('../fixtures/full-spool.ts', import.meta.url))

t.test(
  'with too much in memory paid work is refused, and what ran is charged; with room again it is admitted',
  { skip: noFullDisk },
  async (t) => {
    const redis = await startRedis(t, { args: durable })
    const words = ['-i', process.execPath, script, redis.socket, await tempDir(t), '10000']
    const child = spawn('env', words, { stdio: ['pipe', 'pipe', 'inherit'] })
    t.teardown(() => child.kill('SIGKILL'))
    const said = async () =>
      JSON.parse(String((await once(child.stdout, 'data'))[0])) as Record<string, unknown>
    t.match(await said(), { step: 'full' })
    await redis.kill()
    child.stdin.write('.')
    t.match(await said(), { step: 'settled' })
    await redis.restart()
    child.stdin.write('.')
    t.match(await said(), {
      closed: { isOpen: false, refusal: /too many ledger entries wait for the disk/ },
      opened: { unwritten: 0, refusal: 'admitted' },
      spent: 30_000,
    })
    child.stdin.write('.')
  },
)
