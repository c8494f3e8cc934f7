// A gateway is killed during uploads: acknowledged files are there, whole; everything else is swept up later by another
// gateway, down to the last part of an upload. SEED=… repeats a run; `npm run test:long` does more.

import t from 'tap'
import type { Test } from 'tap'
import { callerOf } from '../fixtures/files-http.ts'
import { assertNothingLeft, leftIn } from '../fixtures/files-left.ts'
import { areThere, countEnds, moment, someUploads } from '../fixtures/files-uploads.ts'
import { startFilesWorld } from '../fixtures/files-world.ts'
import type { FilesWorld, WorldSetup } from '../fixtures/files-world.ts'
import type { FilesCaller } from '../fixtures/files-http.ts'
import { spawnGateway, startGateway } from '../fixtures/gateway.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'
import { startS3 } from '../fixtures/s3-server.ts'
import { until } from '../fixtures/until.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const rounds = process.env.LONG ? 25 : 3

interface Scene {
  readonly world: FilesWorld
  readonly caller: FilesCaller
  readonly random: Random
}

/** Resolves with what was left before another gateway came. */
async function round(t: Test, scene: Scene, number: number): Promise<readonly string[]> {
  const { world, caller, random } = scene
  const victim = await spawnGateway(t, { yaml: world.yaml, redis: world.server })
  const uploads = someUploads(t, { caller, url: victim.url, random })
  if (number === 0) await until(async () => (await world.store.unfinished('files/')).length > 0)
  else await moment(random, uploads)
  await victim.kill()
  const ends = await Promise.all(uploads.map(({ end }) => end))
  const left = await leftIn(world)
  t.comment({
    sent: uploads.map(({ sent, total }) => `${sent}/${total}`),
    left: left.length,
    ...countEnds(ends),
  })
  await world.sweepLater()
  await assertNothingLeft(t, world, 'after a sweep')
  await areThere(t, caller, ends)
  return left
}

async function killAgainAndAgain(t: Test, setup: WorldSetup): Promise<void> {
  const world = await startFilesWorld(t, setup)
  const witness = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const caller = await callerOf(witness, (await witness.account(1000)).key)
  const scene = { world, caller, random: seeded(seed) }
  const left: string[] = []
  for (let number = 0; number < rounds; number++) left.push(...(await round(t, scene, number)))
  for (const what of [/: waits: upload /, /: still reserved: /, /^an unfinished upload: /]) {
    t.ok(
      left.some((line) => what.test(line)),
      `what was killed had left ${what}`,
    )
  }
}

t.test(`on the disk: acknowledged files are there, the rest is swept (SEED=${seed})`, (t) =>
  killAgainAndAgain(t, {}),
)

t.test(`on S3: acknowledged files are there, the rest is swept (SEED=${seed})`, async (t) =>
  killAgainAndAgain(t, { s3: await startS3(t) }),
)
