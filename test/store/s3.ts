// src/store/s3.ts: what every store promises, on a real S3 server (or the one that the environment names), and what the
// network can do to it.

import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { mock } from 'node:test'
import { inspect } from 'node:util'
import t from 'tap'
import type { Test } from 'tap'
import type { S3Config } from '../../src/store/s3-driver.ts'
import { s3Store } from '../../src/store/s3.ts'
import type { S3Options } from '../../src/store/s3.ts'
import type { ObjectStore } from '../../src/store/store.ts'
import { contentOf, sha256Of } from '../fixtures/content.ts'
import { givenS3, startS3 } from '../fixtures/s3-server.ts'
import type { S3Access } from '../fixtures/s3-server.ts'
import { storeSuite } from '../fixtures/store-suite.ts'
import { eventually, until } from '../fixtures/until.ts'

const MiB = 2 ** 20
const partBytes = 5 * MiB
const unavailable = { name: 'GatewayError', code: 'storage_unavailable' }
const given = givenS3()
const server = given ?? (await startS3(t))
const run = Date.now().toString(36)
let stores = 0

function configOf({ endpoint, bucket, ...credentials }: S3Access): S3Config {
  const place = { bucket, endpoint, prefix: `${run}/${stores++}/`, region: 'us-east-1' }
  const frozen = Object.freeze(credentials) // The form that the loader makes, and that the SDK does not expect.
  return { ...place, pathStyle: true, credentials: frozen, partBytes, concurrency: 3 }
}

const open = (t: Test, options: S3Options = {}, config = configOf(server)) => {
  const store = s3Store(config, options)
  t.teardown(() => store.close())
  return store
}

const callsOf = (store: ObjectStore): readonly (() => Promise<unknown>)[] => [
  () => store.put('x', Buffer.from('x')),
  () => store.put('x', contentOf(1)),
  () => store.get('x'),
  () => store.read('x', { start: 0, end: 1 }),
  () => store.remove('x'),
  () => store.abandon('x'),
  () => store.list(''),
  () => store.unfinished(''),
]

t.test('an S3 server keeps all that a store promises', async (t) => {
  await storeSuite(t, { configOf: async () => ({ s3: configOf(server) }), partBytes })
})

t.test('downloads that nobody reads do not block other calls', async (t) => {
  const store = open(t, { sockets: 1, answerMs: 30_000 })
  await store.put('x', contentOf(2 * partBytes))
  const unread = await Promise.all(Array.from({ length: 8 }, () => store.read('x')))
  await store.put('y', contentOf(2 * partBytes))
  t.equal((await store.get('y')).length, 2 * partBytes)
  await store.remove('y')
  for (const body of unread) body.destroy()
})

t.test('with one socket: downloads that are given up, refused or slow give it back', async (t) => {
  const store = open(t, { sockets: 1, downloadSockets: 1 })
  await store.put('x', contentOf(2 * partBytes))
  for (let i = 0; i < 10; i++) {
    const body = await store.read('x')
    if (i % 2 === 0) await once(body, 'readable')
    body.destroy()
    await t.rejects(store.get('none'), { name: 'NoSuchObject' })
  }
  t.equal(await sha256Of(await store.read('x')), await sha256Of(contentOf(2 * partBytes)))
  const cut = new AbortController()
  const before = (at: number) => {
    if (at > partBytes) cut.abort(new Error('left'))
  }
  const put = store.put('y', contentOf(2 * partBytes, { before }), { signal: cut.signal })
  await t.rejects(put, { message: 'left' })
  t.strictSame(await store.list(''), ['x'])
})

t.test('a slow reader is not a silent store', async (t) => {
  const store = open(t, { idleMs: 100 })
  await store.put('x', contentOf(4 * partBytes))
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const body = await store.read('x')
  await once(body, 'readable')
  await until(() => body.readableLength >= body.readableHighWaterMark)
  mock.timers.tick(400)
  t.equal(await sha256Of(body), await sha256Of(contentOf(4 * partBytes)))
})

t.test('two prefixes in one bucket do not see each other', async (t) => {
  const [one, two] = [open(t), open(t)]
  await one.put('a/x', Buffer.from('one'))
  await two.put('a/x', Buffer.from('two'))
  await two.remove('a/x')
  t.equal(String(await one.get('a/x')), 'one')
  t.strictSame(await two.list(''), [])
})

t.test('a signed URL serves the object with the headers that it names, and no other', async (t) => {
  const store = open(t)
  await store.put('a/x', Buffer.from('0123456789'))
  const disposition = `attachment; filename="a.txt"; filename*=UTF-8''%C3%A4.txt`
  const signed = await store.presign?.('a/x', {
    expiresS: 60,
    contentType: 'application/x-test',
    disposition,
  })
  const url = signed ?? ''
  const answer = await fetch(url)
  t.equal(await answer.text(), '0123456789')
  t.equal(answer.headers.get('content-type'), 'application/x-test')
  t.equal(answer.headers.get('content-disposition'), disposition)
  const part = await fetch(url, { headers: { range: 'bytes=2-4' } })
  t.same([part.status, await part.text()], [206, '234'])
  for (const other of [url.replace('/a/x?', '/a/y?'), url.replace('x-test', 'y-test')]) {
    const refused = await fetch(other)
    await refused.text()
    t.equal(refused.status, 403)
  }
})

t.test('without credentials of its own it takes those of the environment', async (t) => {
  const { credentials, ...config } = configOf(server)
  t.intercept(process, 'env', {
    value: {
      ...process.env,
      AWS_ACCESS_KEY_ID: credentials?.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials?.secretAccessKey,
    },
  })
  const store = open(t, {}, config)
  await store.put('x', Buffer.from('x'))
  t.equal(String(await store.get('x')), 'x')
})

t.test('a wrong secret is a failure of the store, and is not shown', async (t) => {
  const wrong = { ...server, secretAccessKey: 'wrong-secret' }
  const store = open(t, {}, configOf(wrong))
  for (const call of callsOf(store)) {
    const error: unknown = await call().catch((thrown: unknown) => thrown)
    t.match(error, unavailable)
    t.notMatch(inspect(error, { depth: 20, showHidden: true }), /wrong-secret/)
  }
  const other = open(t, {}, { ...configOf(server), bucket: 'no-such-bucket' })
  await t.rejects(other.get('x'), unavailable, 'no bucket is no missing object')
})

/** Handles each connection as the script says. */
async function scripted(t: Test, script: (socket: Socket) => void): Promise<S3Config> {
  const sockets = new Set<Socket>()
  const listener = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
    script(socket)
  })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    listener.close()
  })
  const { port } = listener.address() as AddressInfo
  return configOf({ ...server, endpoint: `http://127.0.0.1:${port}` })
}

t.test('a store that never answers is given up by a time-out, at every call', async (t) => {
  const config = await scripted(t, (socket) => socket.resume())
  const store = open(t, { answerMs: 150, patienceMs: 50 }, { ...config, partBytes: 5 * MiB })
  for (const call of callsOf(store)) await t.rejects(call(), unavailable)
  await t.rejects(store.put('x', contentOf(12 * MiB)), unavailable)
})

t.test('a body that stops, breaks off, or has another range than requested', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n'
  const silent = await scripted(
    t,
    (socket) => void socket.once('data', () => socket.write(`${head}x`)),
  )
  await t.rejects(open(t, { idleMs: 100 }, silent).get('x'), unavailable)
  const short = await scripted(
    t,
    (socket) => void socket.once('data', () => socket.end(`${head}x`)),
  )
  await t.rejects(open(t, {}, short).get('x'), unavailable)
  const whole = await scripted(t, (socket) => {
    socket.once('data', () => socket.write(head + 'x'.repeat(100)))
  })
  t.equal((await open(t, {}, whole).get('x')).length, 100)
  await t.rejects(open(t, {}, whole).read('x', { start: 0, end: 1 }), unavailable)
})

t.test(
  'a server that is killed is a failure of the store, until it is back',
  { skip: given !== undefined },
  async (t) => {
    const victim = await startS3(t)
    const store = open(t, {}, configOf(victim))
    await store.put('big', contentOf(40 * MiB))

    await t.test('during a download: the body ends as a failure of the store', async (t) => {
      const body = await store.read('big')
      await once(body, 'readable')
      await victim.kill()
      await t.rejects(sha256Of(body), unavailable)
      await victim.restart()
      // The server answers before it serves its objects.
      const back = await eventually(() => store.read('big').then(sha256Of, () => undefined))
      t.equal(back, await sha256Of(contentOf(40 * MiB)))
    })

    await t.test('during an upload: it fails, and `abandon` takes what is left', async (t) => {
      for (const at of [0, 7 * MiB, 23 * MiB]) {
        const before = async (given: number) => {
          if (given !== at) return
          if (at > 0) await until(async () => (await store.unfinished('')).length === 1)
          await victim.kill()
        }
        await t.rejects(store.put('x', contentOf(30 * MiB, { before })), unavailable)
        await victim.restart()
        await store.abandon('x')
        t.strictSame(await store.unfinished(''), [])
        t.strictSame(await store.list(''), ['big'])
      }
    })

    await t.test('every call fails while it is away', async (t) => {
      await victim.kill()
      for (const call of callsOf(store)) await t.rejects(call(), unavailable)
      await t.rejects(store.put('x', contentOf(20 * MiB)), unavailable)
      await victim.restart()
      t.strictSame(await store.list(''), ['big'])
    })
  },
)
