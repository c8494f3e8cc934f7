// Uploads that the gateway ends: because it is told to stop, or because their session is deleted. A file that a client
// was told of is there; of all others nothing is left. SEED=… repeats a run; `npm run test:long` does more.

import t from 'tap'
import type { Test } from 'tap'
import { callerOf } from '../fixtures/files-http.ts'
import type { FilesCaller } from '../fixtures/files-http.ts'
import { assertNothingLeft } from '../fixtures/files-left.ts'
import { areThere, countEnds, moment, sawEnds, someUploads } from '../fixtures/files-uploads.ts'
import type { Ended, SentUpload } from '../fixtures/files-uploads.ts'
import { startFilesWorld } from '../fixtures/files-world.ts'
import type { FilesWorld, WorldSetup } from '../fixtures/files-world.ts'
import { spawnGateway, startGateway } from '../fixtures/gateway.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'
import { startS3 } from '../fixtures/s3-server.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const rounds = process.env.LONG ? 12 : 2
const drainMs = 300
const more = `drain: ${drainMs}ms\n`

interface Scene {
  readonly world: FilesWorld
  readonly url: string
  readonly own: FilesCaller
  readonly random: Random
}

async function start(t: Test, setup: WorldSetup): Promise<Scene> {
  const world = await startFilesWorld(t, setup)
  const { url, account } = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const own = await callerOf({ url }, (await account(1000)).key)
  return { world, url, own, random: seeded(seed) }
}

async function endsOf(t: Test, uploads: readonly SentUpload[]): Promise<(Ended | 'cut')[]> {
  const ends = await Promise.all(uploads.map(({ end }) => end))
  t.comment(countEnds(ends))
  return ends
}

/** The gateway has cleaned up by its own end: no sweeper runs. */
async function toldToStop(t: Test, setup: WorldSetup): Promise<void> {
  const scene = await start(t, { ...setup, more })
  const { world, own, random } = scene
  const all: (Ended | 'cut')[] = []
  for (let number = 0; number < rounds; number++) {
    const gateway = await spawnGateway(t, { yaml: world.yaml, redis: world.server })
    const uploads = someUploads(t, { caller: own, url: gateway.url, random })
    await moment(random, uploads)
    t.equal(await gateway.stop(), 0, 'it ends as it should')
    const ends = await endsOf(t, uploads)
    await assertNothingLeft(t, world, 'without a sweep')
    await areThere(t, own, ends)
    all.push(...ends)
  }
  sawEnds(t, all, '503 server_draining', ['201', 'cut'])
}

async function sessionDeleted(t: Test, setup: WorldSetup): Promise<void> {
  const scene = await start(t, setup)
  const { world, url, own, random } = scene
  const all: (Ended | 'cut')[] = []
  for (let number = 0; number < rounds; number++) {
    const caller = await callerOf({ url }, own.key)
    const uploads = someUploads(t, { caller, url, random })
    await moment(random, uploads)
    const path = `${url}/api/chat/sessions/${caller.session}`
    const headers = { authorization: `Bearer ${own.key}` }
    t.equal((await fetch(path, { method: 'DELETE', headers })).status, 204)
    for (const upload of uploads) upload.goOn()
    all.push(...(await endsOf(t, uploads)))
    await world.sweepLater()
    await assertNothingLeft(t, world, 'after a sweep')
    t.strictSame(await world.store.list('files/'), [], 'its files went with it')
  }
  sawEnds(t, all, '404 session_not_found', ['201'])
}

const faults = {
  'a gateway is told to stop within uploads': toldToStop,
  'a session is deleted while files come into it': sessionDeleted,
}

for (const [what, fault] of Object.entries(faults)) {
  t.test(`on the disk: ${what} (SEED=${seed})`, (t) => fault(t, {}))
  t.test(`on S3: ${what} (SEED=${seed})`, async (t) => fault(t, { s3: await startS3(t) }))
}
