// A store that hangs: it accepts connections and answers nothing. Uploads, downloads and deletions end in limited time,
// and nothing is left once it answers again. `npm run test:long` uses the gateway's own time-outs; here they are
// shorter.

import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import type { Test } from 'tap'
import { asGatewayError } from '../../src/errors.ts'
import { FileBook } from '../../src/files/files.ts'
import { Shelf } from '../../src/files/shelf.ts'
import { sendError } from '../../src/http/reply.ts'
import { newId } from '../../src/ids.ts'
import { newRef } from '../../src/accounts/api-key.ts'
import { s3Store } from '../../src/store/s3.ts'
import { addSession, partsOn } from '../fixtures/file-rows.ts'
import { callerOf } from '../fixtures/files-http.ts'
import { assertNothingLeft } from '../fixtures/files-left.ts'
import { countEnds, sendUpload } from '../fixtures/files-uploads.ts'
import { partBytes, s3Config, startFilesWorld } from '../fixtures/files-world.ts'
import type { FilesWorld } from '../fixtures/files-world.ts'
import { codeOf, startGateway } from '../fixtures/gateway.ts'
import { startListener } from '../fixtures/http-listener.ts'
import { connectLink } from '../fixtures/ledger.ts'
import { startS3 } from '../fixtures/s3-server.ts'
import type { S3Access } from '../fixtures/s3-server.ts'
import { until } from '../fixtures/until.ts'

/** Works like a route of the gateway, on a store with short time-outs. */
async function startImpatient(t: Test, world: FilesWorld, s3: S3Access) {
  const store = s3Store(s3Config(s3, world.prefix), { answerMs: 300, idleMs: 300, patienceMs: 100 })
  const readable = s3Store(s3Config(s3, world.prefix), { idleMs: 300 })
  for (const one of [store, readable]) t.teardown(() => one.close())
  const link = await connectLink(t, world.server.socket)
  const book = new FileBook({ ...partsOn(link), store })
  const shelf = new Shelf(book, store)
  /** Used for what must succeed, however late. */
  const patient = new Shelf(book, world.store)
  const slow = new Shelf(book, readable)
  const ref = newRef()
  const session = await addSession(link.client, ref)
  const onRequest = async (req: IncomingMessage, res: ServerResponse) => {
    try {
      const { signal } = new AbortController()
      const limits = { maxBytes: 1e9, quotaBytes: 1e9, idleMs: 30_000, allow: ['*/*'] }
      const row = await shelf.receive(req, { ...limits, ref, query: new URLSearchParams(), signal })
      res.writeHead(201).end(JSON.stringify(row))
    } catch (error) {
      sendError(res, { id: 'req_test', replyHeaders: {} }, asGatewayError(error))
    }
  }
  const { port } = await startListener(t, onRequest)
  return { shelf, patient, slow, ref, session, url: `http://127.0.0.1:${port}` }
}

t.test('a store that hangs ends the work that waits for it, and nothing is left', async (t) => {
  const s3 = await startS3(t)
  const world = await startFilesWorld(t, { s3 })
  const { shelf, patient, slow, ref, session, url } = await startImpatient(t, world, s3)
  const caller = { key: '', session }
  // A part has 41 s to arrive.
  const content = Buffer.alloc((process.env.LONG ? 3 : 0.1) * partBytes, 'a file ')
  const large = Buffer.alloc(3 * partBytes, 'a file ')
  const { id, signal } = { id: newId('file'), signal: new AbortController().signal }
  const sha256 = hash('sha256', large)
  const file = { id, session, filename: 'a', contentType: 'text/plain', sha256 }
  await patient.keep(large, { ...file, ref, quotaBytes: 1e9, signal })
  const reading = await slow.open(ref, id)
  const held = [0.2, 0.5, 0.9].map((part) =>
    sendUpload(t, { url, caller, content, hold: Math.ceil(part * content.length) }),
  )
  await until(() => held.every(({ isHeld }) => isHeld))

  process.kill(s3.pid, 'SIGSTOP')
  for (const upload of held) upload.goOn()
  const small = sendUpload(t, { url, caller, content: Buffer.from('small') })
  const ends = await Promise.all([...held, small].map(({ end }) => end))
  t.same(countEnds(ends), { '503 storage_unavailable': 4 })
  await t.rejects(buffer(reading), { code: 'storage_unavailable' }, 'a download that runs')
  await t.rejects(shelf.open(ref, id), { code: 'storage_unavailable' }, 'one that begins')

  process.kill(s3.pid, 'SIGCONT')
  await world.sweepLater()
  await assertNothingLeft(t, world, 'after a sweep')
  t.ok(large.equals(await patient.load(ref, id)), 'what was there is there')
})

t.test(
  "a store that hangs is given up within the gateway's own time-outs",
  { skip: !process.env.LONG },
  async (t) => {
    const s3 = await startS3(t)
    const world = await startFilesWorld(t, { s3 })
    const gateway = await startGateway(t, { yaml: world.yaml, redis: world.server })
    const own = await callerOf(gateway, (await gateway.account(1000)).key)
    const content = Buffer.alloc(5 * partBytes, 'a file ')
    const { id } = await own.make({ content })
    const { id: other } = await own.make({ content: 'to be deleted' })
    /** Prints the time for people; the test only asserts that the work ends. */
    const seconds = async <T>(what: string, work: Promise<T>): Promise<T> => {
      const from = performance.now()
      const end = await work
      t.comment(what, ((performance.now() - from) / 1000).toFixed(1), end)
      return end
    }
    const uploads = [0, 1].map((i) =>
      sendUpload(t, {
        url: gateway.url,
        caller: own,
        content,
        hold: (1 + i) * partBytes + 100_000,
      }),
    )
    await until(async () => (await world.store.unfinished('files/')).length === 2)
    const reading = await own.call(`GET /${id}`)
    process.kill(s3.pid, 'SIGSTOP')
    for (const upload of uploads) upload.goOn()
    const within = reading.bytes().then(
      () => 'whole',
      () => 'cut',
    )
    const [ends, ...told] = await Promise.all([
      Promise.all(uploads.map((upload, i) => seconds(`upload ${i}`, upload.end))),
      seconds('new upload', own.upload({ content: 'small' }).then(codeOf)),
      seconds('download within', within),
      seconds('download', own.call(`GET /${id}`).then(codeOf)),
      seconds(
        'delete',
        own.call(`DELETE /${other}`).then(({ status }) => status),
      ),
    ])
    t.same(countEnds(ends), { '503 storage_unavailable': 2 })
    t.strictSame(told, ['storage_unavailable', 'cut', 'storage_unavailable', 204])
    process.kill(s3.pid, 'SIGCONT')
    await world.sweepLater()
    await assertNothingLeft(t, world, 'after a sweep')
  },
)
