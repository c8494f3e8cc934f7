// src/store/s3-upload.ts: how an upload in parts ends when something goes wrong, on a scripted server: which requests
// it sends, in which order. test/store/s3.ts shows that nothing is left on a real server.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import t from 'tap'
import type { Test } from 'tap'
import { s3Store } from '../../src/store/s3.ts'
import type { S3Options } from '../../src/store/s3.ts'
import { bytesOf, contentOf } from '../fixtures/content.ts'
import { until } from '../fixtures/until.ts'

const MiB = 2 ** 20
const unavailable = { code: 'storage_unavailable' }

interface Script {
  /** The status with which a part is answered; a promise delays the answer. */
  part?(number: number): Promise<number> | number
  complete?(): Promise<number> | number
  /** Called when a part has arrived whole. */
  arrived?(number: number, content: Buffer): void
}

/** A server of one bucket that stores nothing; its log has a word for each answered call. */
async function scripted(t: Test, script: Script, options: S3Options = {}) {
  const log: string[] = []
  let uploads = 0
  const answer = async (req: IncomingMessage, res: ServerResponse) => {
    const { searchParams: query } = new URL(req.url ?? '', 'http://x')
    const content = await buffer(req)
    const bytes = content.length
    const number = query.get('partNumber')
    if (number) script.arrived?.(Number(number), content)
    const say = (word: string, status: number, body = '') => {
      log.push(status < 300 ? word : `${word} ${status}`)
      res.writeHead(status, { etag: '"e"' }).end(body)
    }
    if (req.method === 'POST' && query.has('uploads')) {
      uploads++
      return say('create', 200, `<R><UploadId>u1</UploadId></R>`)
    }
    if (number) return say(`part ${number}`, (await script.part?.(Number(number))) ?? 200)
    if (req.method === 'PUT') return say(`put ${bytes}`, 200)
    if (req.method === 'POST') return say('complete', (await script.complete?.()) ?? 200, '<R/>')
    if (req.method === 'GET') {
      const listed = '<Upload><Key>p/x</Key><UploadId>u1</UploadId></Upload>'
      return say('list', 200, `<R>${uploads > 0 ? listed : ''}</R>`)
    }
    uploads = 0
    say('abort', 204)
  }
  const server = createServer((req, res) => void answer(req, res).catch(() => res.destroy()))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const place = { bucket: 'files', prefix: 'p/', region: 'us-east-1', pathStyle: true }
  const credentials = { accessKeyId: 'AK', secretAccessKey: 'SK' }
  const config = { ...place, endpoint: `http://127.0.0.1:${port}`, credentials }
  const store = s3Store({ ...config, partBytes: 5 * MiB, concurrency: 3 }, options)
  t.teardown(async () => {
    await store.close()
    server.closeAllConnections()
    server.close()
  })
  return { store, log }
}

t.test('a stream no longer than a part is one object; a longer one goes in parts', async (t) => {
  const { store, log } = await scripted(t, {})
  await store.put('x', contentOf(5 * MiB))
  t.strictSame(log.splice(0), [`put ${5 * MiB}`])
  await store.put('x', contentOf(11 * MiB))
  t.strictSame(log.splice(0).sort(), ['complete', 'create', 'part 1', 'part 2', 'part 3'])
})

t.test('three parts are on their way, and no more is read meanwhile', async (t) => {
  const gate = Promise.withResolvers<number>()
  let sent = 0
  const { store } = await scripted(t, {
    part: () => {
      sent++
      return gate.promise
    },
  })
  let read = 0
  const put = store.put('x', contentOf(60 * MiB, { before: (at) => void (read = at) }))
  await until(() => sent === 3)
  const before = read
  for (let i = 0; i < 200; i++) await new Promise(setImmediate)
  t.ok(read < 16 * MiB, `${read} of it are read, ${before} were`)
  t.equal(sent, 3)
  gate.resolve(200)
  await put
  t.equal(sent, 12)
})

t.test('parts whose memory is used again hold what was given', async (t) => {
  const parts: Buffer[] = []
  const fourth = Promise.withResolvers<number>()
  const { store } = await scripted(t, {
    part: (number) => (number === 1 ? fourth.promise : 200),
    arrived(number, content) {
      parts[number - 1] = content
      if (number === 4) fourth.resolve(200)
    },
  })
  await store.put('x', contentOf(31 * MiB))
  t.equal(parts.length, 7)
  t.ok(Buffer.concat(parts).equals(await bytesOf(31 * MiB)))
})

t.test('a part that the server refuses ends the reading, whatever the client sends', async (t) => {
  const { store, log } = await scripted(t, { part: () => 403 })
  const never = new Promise<void>(() => undefined)
  const content = contentOf(60 * MiB, { before: (at) => (at > 6 * MiB ? never : undefined) })
  await t.rejects(store.put('x', content), unavailable)
  t.ok(content.destroyed)
  t.strictSame(log, ['create', 'part 1 403', 'abort', 'list'])
})

t.test('the abort comes after the last part has ended', async (t) => {
  const gate = Promise.withResolvers<number>()
  const { store, log } = await scripted(t, {
    part: (number) => (number === 1 ? gate.promise : 200),
  })
  const broken = new Error('the client left')
  const left = Promise.withResolvers<void>()
  const before = (at: number) => {
    if (at < 12 * MiB) return
    left.resolve()
    throw broken
  }
  const put = store.put('x', contentOf(60 * MiB, { before }))
  put.catch(() => undefined)
  await left.promise
  await until(() => log.includes('part 2'))
  t.notOk(log.includes('abort'))
  gate.resolve(200)
  await t.rejects(put, broken)
  t.strictSame(log, ['create', 'part 2', 'part 1', 'abort', 'list'])
})

t.test('a part that does not end is cut after the time limit', async (t) => {
  const arrived = Promise.withResolvers<void>()
  const part = () => {
    arrived.resolve()
    return new Promise<number>(() => undefined)
  }
  const { store, log } = await scripted(t, { part }, { patienceMs: 50 })
  const left = new AbortController()
  const before = async (at: number) => {
    if (at < 6 * MiB) return
    await arrived.promise
    left.abort(new Error('left'))
  }
  const put = store.put('x', contentOf(60 * MiB, { before }), { signal: left.signal })
  await t.rejects(put, { message: 'left' })
  t.strictSame(log, ['create', 'abort', 'list'])
})

t.test('a client that leaves after everything was sent comes too late', async (t) => {
  const left = new AbortController()
  const complete = () => {
    left.abort(new Error('left'))
    return 200
  }
  const { store, log } = await scripted(t, { complete })
  await store.put('x', contentOf(6 * MiB), { signal: left.signal })
  t.equal(log.at(-1), 'complete')
})

t.test('a completion that is refused is a failure, and the upload is aborted', async (t) => {
  const { store, log } = await scripted(t, { complete: () => 400 })
  await t.rejects(store.put('x', contentOf(6 * MiB)), unavailable)
  t.strictSame(log.slice(-3), ['complete 400', 'abort', 'list'])
})
