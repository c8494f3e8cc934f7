// src/cli/doctor/store.ts on a disk, on a real S3 server, on one that is not there, and on one that lies.

import { mkdir, readdir, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import {
  examineStore,
  judgeClock,
  judgeSpace,
  watchFolders,
} from '../../../src/cli/doctor/store.ts'
import type { S3Config } from '../../../src/store/s3-driver.ts'
import { diskStore } from '../../../src/store/disk.ts'
import { s3Store } from '../../../src/store/s3.ts'
import { startBackend } from '../../fixtures/backend.ts'
import type { Script } from '../../fixtures/backend.ts'
import { bytes, silent } from '../../fixtures/backend-scripts.ts'
import { startExamination } from '../../fixtures/examination.ts'
import { givenS3, startS3 } from '../../fixtures/s3-server.ts'
import type { S3Access } from '../../fixtures/s3-server.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'

const heads = (lines: readonly string[]) => lines.map((line) => line.split(':')[0])
const all = ['write', 'ranged read', 'delete', 'upload cut short'].map((name) => `ok store ${name}`)

t.test('a folder that can be written: ok in every check, and unchanged afterwards', async (t) => {
  const dir = await tempDir(t)
  const { examination, lines } = startExamination()
  await examineStore({ disk: { path: join(dir, 'data', 'store') } }, examination)
  t.strictSame(heads(lines).slice(0, 4), all)
  t.match(lines[4], /^(ok|warn) store space: /)
  t.strictSame(await readdir(dir), [])
})

t.test('a folder that cannot be written: one failure, and no further checks of it', async (t) => {
  const dir = await tempDir(t)
  const path = join(dir, 'file')
  await writeFile(path, '')
  const { examination, lines } = startExamination()
  await examineStore({ disk: { path } }, examination)
  t.match(lines[0], /^fail store write: (ENOTDIR|EEXIST)/)
  t.match(heads(lines).slice(1), [/^(ok|warn) store space$/])
  t.notOk(examination.findings[0]?.unreachable)
})

t.test(
  'a file in the way of every object is a failure of writing, and nothing is left',
  async (t) => {
    const path = await tempDir(t)
    await mkdir(path, { recursive: true })
    await writeFile(join(path, 'doctor'), '')
    const { examination, lines } = startExamination()
    await examineStore({ disk: { path } }, examination)
    t.match(lines[0], /^fail store write: /)
    t.strictSame(await diskStore(path).unfinished(''), [])
  },
)

for (const [i, line] of all.entries()) {
  t.test(`Ctrl-C after "${line}" leaves nothing`, async (t) => {
    const dir = await tempDir(t)
    const stop = new AbortController()
    const { examination, lines } = startExamination({
      signal: stop.signal,
      tell: () => lines.length === i + 1 && stop.abort(new Error('Ctrl-C')),
    })
    const examined = examineStore({ disk: { path: join(dir, 'store') } }, examination)
    await t.rejects(examined, { message: 'Ctrl-C' })
    t.strictSame(heads(lines), all.slice(0, i + 1))
    t.strictSame(await readdir(dir), [])
  })
}

t.test('Ctrl-C at any moment leaves nothing, then or later', async (t) => {
  const dir = await tempDir(t)
  for (let turns = 0; turns < 60; turns++) {
    const stop = new AbortController()
    const { examination } = startExamination({ signal: stop.signal })
    const path = join(dir, `${turns}`)
    const examined = examineStore({ disk: { path } }, examination).catch(() => undefined)
    for (let i = 0; i < turns; i++) await nextTurn()
    stop.abort(new Error('Ctrl-C'))
    await examined
  }
  t.strictSame(await readdir(dir), [])
})

const place = { bucket: 'tollgate', prefix: 'p/', region: 'us-east-1', pathStyle: true }
const parts = { partBytes: 64 * 2 ** 20, concurrency: 3 }

function s3At({ endpoint, bucket, ...credentials }: S3Access): S3Config {
  return { ...place, ...parts, endpoint, bucket, credentials }
}

const at = (endpoint: string) =>
  s3At({ endpoint, bucket: 'tollgate', accessKeyId: 'a', secretAccessKey: 'very-secret' })

t.test('on an S3 server, every check runs and nothing is left', async (t) => {
  const server = givenS3() ?? (await startS3(t))
  const s3 = s3At(server)
  const store = s3Store(s3)
  t.teardown(() => store.close())

  await t.test('every check is ok, and nothing is left', async (t) => {
    const { examination, lines } = startExamination({ limitMs: 10_000 })
    await examineStore({ s3 }, examination)
    t.strictSame(heads(lines), [...all, 'ok store clock'])
    t.strictSame(await store.list('doctor/'), [])
    t.strictSame(await store.unfinished('doctor/'), [])
  })

  await t.test('Ctrl-C in the middle of the upload leaves nothing', async (t) => {
    const stop = new AbortController()
    const { examination, lines } = startExamination({ signal: stop.signal, limitMs: 10_000 })
    const examined = t.rejects(examineStore({ s3 }, examination), { message: 'Ctrl-C' })
    while ((await store.unfinished('doctor/')).length === 0) t.ok(lines.length < 5)
    stop.abort(new Error('Ctrl-C'))
    await examined
    t.strictSame(heads(lines), all.slice(0, 3))
    t.strictSame(await store.unfinished('doctor/'), [])
  })

  await t.test('a wrong key is reported as that, and not shown', async (t) => {
    const credentials = { accessKeyId: server.accessKeyId, secretAccessKey: 'wrong-secret' }
    const { examination, lines } = startExamination({ limitMs: 10_000 })
    await examineStore({ s3: { ...s3, credentials } }, examination)
    t.match(lines[0], /^fail store write: (SignatureDoesNotMatch|AccessDenied|Forbidden)/)
    t.notMatch(lines.join(), 'wrong-secret')
    t.notOk(examination.findings.some(({ unreachable }) => unreachable))
  })
})

t.test('a store that is not there is unreachable in all its checks', async (t) => {
  const backend = await startBackend(t)
  await backend.stop()
  const { examination, lines } = startExamination()
  await examineStore({ s3: at(`http://127.0.0.1:${backend.port}`) }, examination)
  t.match(lines[0], /^fail store write: .*ECONNREFUSED/)
  t.match(lines.at(-1), /^fail store clock: .*ECONNREFUSED/)
  t.ok(examination.findings.every(({ unreachable }) => unreachable))
})

t.test('a store that hangs is given up in each check', async (t) => {
  const { port } = await startBackend(t, silent)
  const { examination, lines } = startExamination({ limitMs: 300 })
  await examineStore({ s3: at(`http://127.0.0.1:${port}`) }, examination)
  t.match(lines, [
    'fail store write: no answer within 0.3 s',
    /^fail store clean-up of doctor\/[0-9a-f]{16}-whole: no answer within 0.3 s$/,
    'fail store clock: no answer within 0.3 s',
  ])
  t.equal(lines.length, 3)
})

const xml = (text: string, status = 200) => bytes(text, { status, type: 'application/xml' })
const noUploads = xml('<ListMultipartUploadsResult></ListMultipartUploadsResult>')
const noObjects = xml('<ListBucketResult></ListBucketResult>')

/** Confirms everything, and does nothing. */
const liar: Script = (call) => {
  const { method = '', url = '', headers } = call.req
  if (url.includes('uploads') && method === 'GET') return noUploads(call)
  if (url.includes('list-type')) return noObjects(call)
  if (url.includes('uploads')) {
    const id = '<UploadId>1</UploadId>'
    return xml(`<InitiateMultipartUploadResult>${id}</InitiateMultipartUploadResult>`)(call)
  }
  if (method !== 'GET') return bytes('', { headers: { etag: '"1"' } })(call)
  const range = { 'content-range': 'bytes 1000-1999/65536' }
  const body = Buffer.alloc(1000, 'x')
  return bytes(body, headers.range ? { status: 206, headers: range } : {})(call)
}

t.test('a store that confirms everything and does nothing is detected by each check', async (t) => {
  const backend = await startBackend(t, liar)
  const { examination, lines } = startExamination({ limitMs: 1000 })
  await examineStore({ s3: at(`http://127.0.0.1:${backend.port}`) }, examination)
  t.strictSame(lines.slice(1, 4), [
    'fail store ranged read: bytes 1000 to 1999 differ from what was written',
    'fail store delete: what was deleted is still there',
    'fail store upload cut short: the store does not list a running upload as unfinished',
  ])
  t.notMatch(lines.join(), 'very-secret')
})

t.test('a missing bucket is reported as that', async (t) => {
  const error = '<Error><Code>NoSuchBucket</Code><Message>There is none.</Message></Error>'
  const backend = await startBackend(t, xml(error, 404))
  const { examination, lines } = startExamination()
  await examineStore({ s3: at(`http://127.0.0.1:${backend.port}`) }, examination)
  t.equal(lines[0], 'fail store write: NoSuchBucket: There is none.')
  t.notOk(examination.findings[0]?.unreachable)
})

t.test('parts that stay after an upload was cut short are found', async (t) => {
  let key = ''
  const backend = await startBackend(t, (call) => {
    const { method = '', url = '' } = call.req
    if (method === 'POST' || method === 'PUT')
      key = /doctor\/[0-9a-f]{16}-cut/.exec(url)?.[0] ?? key
    if (!url.includes('uploads') || method !== 'GET') return liar(call)
    const upload = `<Upload><Key>p/${key}</Key><UploadId>1</UploadId></Upload>`
    return xml(`<ListMultipartUploadsResult>${upload}</ListMultipartUploadsResult>`)(call)
  })
  const { examination, lines } = startExamination({ limitMs: 10_000 })
  await examineStore({ s3: at(`http://127.0.0.1:${backend.port}`) }, examination)
  t.match(lines[3], /^fail store upload cut short: .*still there/)
  t.match(lines[4], /^fail store clean-up of .*-cut: /)
})

t.test("a server's clock may differ a little, not much", async (t) => {
  t.match(judgeClock(1000), { verdict: 'ok', detail: /^1 s ahead/ })
  t.match(judgeClock(-60_000), { verdict: 'warn', detail: /^60 s behind/ })
  t.match(judgeClock(16 * 60_000), { verdict: 'fail', detail: /refuses/ })
  t.match(judgeClock(Number.NaN), { verdict: 'warn' })
})

t.test('the space is that of a folder that does not exist yet, too', async (t) => {
  const dir = await tempDir(t)
  const path = join(dir, 'not', 'yet')
  const { verdict, detail } = await judgeSpace(path, 0)
  t.match(verdict, /^(ok|warn)$/)
  t.match(detail, /^\/.*\/not\/yet has \d+\.\d [MG]iB free/)
})

t.test('a little space is told in MiB', { skip: process.platform !== 'linux' }, async (t) => {
  // The kernel's own folder has no space at all.
  const { detail } = await judgeSpace('/proc', 52 * 2 ** 20)
  t.match(detail, '/proc has 0.0 MiB free, less than store.disk.reserve, 52.0 MiB:')
  t.match((await judgeSpace('/proc', 2 ** 30)).detail, 'reserve, 1.0 GiB:')
})

t.test('the space for files is what is free beyond the reserve', async (t) => {
  const dir = await tempDir(t)
  const { bavail, bsize } = await statfs(dir)
  const free = bavail * bsize
  const judge = (reserveBytes: number) => judgeSpace(dir, reserveBytes)
  t.match(await judge(2 ** 60), {
    verdict: 'fail',
    detail: /less than store\.disk\.reserve, .* refused/,
  })
  t.match(await judge(free - 2 ** 29), {
    verdict: 'warn',
    detail: /reserve.*little is left for files/,
  })
  t.equal((await judge(0)).verdict, free < 2 ** 30 ? 'warn' : 'ok')
})

t.test('folders that the checks made are removed, unless something is in them', async (t) => {
  const dir = await tempDir(t)
  const store = join(dir, 'data', 'store')
  const remove = await watchFolders(store)
  for (const name of ['doctor', '.tmp']) await mkdir(join(store, name), { recursive: true })
  await remove()
  t.strictSame(await readdir(dir), [])

  const again = await watchFolders(store)
  for (const name of ['doctor', '.tmp']) await mkdir(join(store, name), { recursive: true })
  await writeFile(join(store, 'file'), "somebody else's")
  await again()
  t.strictSame(await readdir(store), ['file'])
})

t.test('folders that existed before stay', async (t) => {
  const store = await tempDir(t)
  await mkdir(join(store, 'doctor'))
  await (
    await watchFolders(store)
  )()
  t.strictSame(await readdir(store), ['doctor'])
})
