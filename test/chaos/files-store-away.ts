// An S3 server that is killed and comes back while files go up, come down and are deleted: an upload is refused or
// whole, a download never looks whole when it is not, a deletion is done in the end. SEED=… repeats a run; `npm run
// test:long` makes more of it.

import { createHash, hash } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream/promises'
import t from 'tap'
import type { Test } from 'tap'
import { callerOf } from '../fixtures/files-http.ts'
import type { FilesCaller } from '../fixtures/files-http.ts'
import { assertNothingLeft } from '../fixtures/files-left.ts'
import { areThere, countEnds, moment, sawEnds, someUploads } from '../fixtures/files-uploads.ts'
import type { Ended } from '../fixtures/files-uploads.ts'
import { partBytes, startFilesWorld } from '../fixtures/files-world.ts'
import type { FilesWorld } from '../fixtures/files-world.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { InProcess } from '../fixtures/gateway.ts'
import { seeded } from '../fixtures/random.ts'
import { startS3 } from '../fixtures/s3-server.ts'
import type { S3Server } from '../fixtures/s3-server.ts'
import { until } from '../fixtures/until.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const rounds = process.env.LONG ? 12 : 2
const random = seeded(seed)

interface Scene {
  readonly s3: S3Server
  readonly world: FilesWorld
  readonly gateway: InProcess
  readonly own: FilesCaller
}

async function start(t: Test): Promise<Scene> {
  const s3 = await startS3(t)
  const world = await startFilesWorld(t, { s3 })
  const gateway = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const own = await callerOf(gateway, (await gateway.account(1000)).key)
  return { s3, world, gateway, own }
}

t.test(`a store killed within uploads: each is refused or whole (SEED=${seed})`, async (t) => {
  const { s3, world, gateway, own } = await start(t)
  const all: (Ended | 'cut')[] = []
  for (let number = 0; number < rounds; number++) {
    const uploads = someUploads(t, { caller: own, url: gateway.url, random })
    await moment(random, uploads)
    await s3.kill()
    for (const upload of uploads) upload.goOn()
    const ends = await Promise.all(uploads.map(({ end }) => end))
    t.comment(countEnds(ends))
    all.push(...ends)
    await s3.restart()
    await world.sweepLater()
    await assertNothingLeft(t, world, 'after a sweep')
    await areThere(t, own, ends)
  }
  sawEnds(t, all, '503 storage_unavailable', ['201'])
})

t.test(
  `a store killed within downloads: none looks whole that is cut (SEED=${seed})`,
  async (t) => {
    const { s3, gateway, own } = await start(t)
    const { id, bytes, sha256 } = await own.make({
      content: Buffer.alloc(5 * partBytes, 'a file '),
    })
    let cuts = 0
    for (let number = 0; number < rounds; number++) {
      const headers = { authorization: `Bearer ${own.key}` }
      const req = request(`${gateway.url}/api/files/${id}`, { headers, agent: false }).end()
      t.teardown(() => void req.destroy())
      const [res] = (await once(req, 'response')) as [IncomingMessage]
      t.equal(res.statusCode, 200)
      t.equal(res.headers['content-length'], String(bytes))
      const hash = createHash('sha256')
      const killAt = random(bytes - partBytes)
      let got = 0
      let killing: Promise<void> | undefined
      res.on('data', (chunk: Buffer) => {
        hash.update(chunk)
        got += chunk.length
        if (killing || got < killAt) return
        res.pause()
        killing = s3.kill().then(() => void res.resume())
      })
      const isWhole = await finished(res).then(
        () => true,
        () => false,
      )
      await killing
      if (isWhole) t.strictSame([got, hash.digest('hex')], [bytes, sha256], 'whole')
      else t.ok(got < bytes, `cut after ${got} of ${bytes} bytes`)
      if (!isWhole) cuts++
      const away = await own.call(`GET /${id}`)
      t.equal(away.status, 503, 'while it is away')
      t.match(await away.json(), { error: { code: 'storage_unavailable' } })
      await s3.restart()
      // The server answers before it serves its objects.
      await until(async () => (await own.call(`GET /${id}`)).ok)
    }
    t.ok(cuts > 0, `${cuts} were cut`)
    const back = await own.call(`GET /${id}`)
    t.equal(hash('sha256', await back.bytes()), sha256, 'once it is back')
  },
)

t.test(`a store killed within deletions: all are done in the end (SEED=${seed})`, async (t) => {
  const { s3, world, own } = await start(t)
  for (let number = 0; number < rounds / 2; number++) {
    const files = await Promise.all(
      Array.from({ length: 12 }, (_, i) => own.make({ content: `file ${i}` })),
    )
    const remove = async ({ id }: { id: string }) => (await own.call(`DELETE /${id}`)).status
    const killAfter = random(files.length)
    const statuses: number[] = []
    for (const file of files.slice(0, killAfter)) statuses.push(await remove(file))
    const killing = s3.kill()
    statuses.push(...(await Promise.all(files.slice(killAfter).map(remove))))
    await killing
    t.strictSame(new Set(statuses), new Set([204]))
    const gone = await own.call(`GET /${files.at(-1)?.id}`)
    t.equal(gone.status, 404)
    await s3.restart()
    t.ok((await world.store.list('files/')).length > 0, 'objects are left')
    await world.sweepLater()
    await assertNothingLeft(t, world, 'after a sweep')
    t.strictSame(await world.store.list('files/'), [])
  }
})
