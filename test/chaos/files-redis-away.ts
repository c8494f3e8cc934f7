// Redis is killed during uploads, and comes back: an upload is refused or whole, whether it waited for Redis or not,
// and what was lost track of meanwhile is swept up. SEED=… repeats a run; `npm run test:long` does more.

import t from 'tap'
import type { Test } from 'tap'
import { durable } from '../fixtures/aof.ts'
import { callerOf } from '../fixtures/files-http.ts'
import { assertNothingLeft } from '../fixtures/files-left.ts'
import { areThere, countEnds, moment, sawEnds, someUploads } from '../fixtures/files-uploads.ts'
import type { Ended } from '../fixtures/files-uploads.ts'
import { startFilesWorld } from '../fixtures/files-world.ts'
import type { WorldSetup } from '../fixtures/files-world.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { seeded } from '../fixtures/random.ts'
import { startS3 } from '../fixtures/s3-server.ts'
import { until } from '../fixtures/until.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const rounds = process.env.LONG ? 12 : 2

async function redisAway(t: Test, setup: WorldSetup): Promise<void> {
  const world = await startFilesWorld(t, { ...setup, args: durable })
  const { url, account } = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const own = await callerOf({ url }, (await account(1000)).key)
  const random = seeded(seed)
  const all: (Ended | 'cut')[] = []
  for (let number = 0; number < rounds; number++) {
    const uploads = someUploads(t, { caller: own, url, random })
    await moment(random, uploads)
    await world.server.kill()
    for (const upload of uploads) upload.goOn()
    // In every second round Redis is away for longer than the uploads wait; otherwise some wait and then go on.
    if (number % 2 === 0) await Promise.all(uploads.map(({ end }) => end))
    await world.server.restart()
    const ends = await Promise.all(uploads.map(({ end }) => end))
    t.comment(countEnds(ends))
    all.push(...ends)
    await until(async () => (await own.call('GET ')).ok)
    await world.sweepLater()
    await assertNothingLeft(t, world, 'after a sweep')
    await areThere(t, own, ends)
  }
  sawEnds(t, all, '503 ledger_unavailable', ['201'])
}

t.test(`on the disk: with Redis killed, an upload is refused or whole (SEED=${seed})`, (t) =>
  redisAway(t, {}),
)

t.test(`on S3: with Redis killed, an upload is refused or whole (SEED=${seed})`, async (t) =>
  redisAway(t, { s3: await startS3(t) }),
)
