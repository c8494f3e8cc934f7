import t from 'tap'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { connect as connectTls } from 'node:tls'
import { bothWays } from '../fixtures/both-ways.ts'
import { certificate } from '../fixtures/certificate.ts'
import { echoSize, readAndAnswer, startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { eventually, soon, until } from '../fixtures/until.ts'

const { cert, key } = certificate
const listen = { host: '127.0.0.1', port: 0, trustedProxies: [], tls: { cert, key } }
const start = (options: object = {}) =>
  startListener(t, readAndAnswer(echoSize), { listen, ...options })

const askSecurely = async (port: number, bytes: string) => {
  const socket = connectTls({ port, host: '127.0.0.1', ca: cert })
  t.teardown(() => void socket.destroy())
  socket.end(bytes)
  return await text(socket)
}

const test = bothWays(t, 'first-byte')

test('plain HTTP on the HTTPS port gets an answer that says so', async (t, isPlain) => {
  const told: string[] = []
  const onRefused = (_: unknown, id: string) => void told.push(id)
  const listener = await start({ onRefused })
  const begun = ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', 'P', `POST / HTTP/1.1\r\n${'a'.repeat(99)}`]
  for (const bytes of begun) {
    const client = await rawClient(t, listener.port)
    client.send(bytes)
    if (isPlain) {
      client.socket.end()
      t.equal(await client.ended(), '', 'Node closes without a word')
      continue
    }
    const answer = await client.answer()
    t.equal(answer.status, 400)
    t.match(answer.json, { error: { code: 'malformed_request', message: /https:\/\// } })
    t.equal(answer.headers['connection'], 'close')
    t.ok(told.includes(String(answer.json.request_id)), 'it is counted')
    client.socket.end()
    t.equal(await client.ended(), '')
  }
  t.equal(told.length, isPlain ? 0 : 3)
  await until(() => listener.connections === 0)
  t.match(
    await askSecurely(listener.port, 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'),
    /^HTTP\/1.1 200 OK/,
  )
})

test('a TLS hello that comes in pieces is accepted', async (t) => {
  const listener = await start()
  const hello = await helloOf()
  const client = await rawClient(t, listener.port)
  client.send(hello.subarray(0, 1))
  await until(() => listener.connections === 1)
  client.send(hello.subarray(1))
  const [answer] = (await once(client.socket, 'data')) as [Buffer]
  t.equal(answer[0], 0x16, 'a handshake')
})

test('anything else is closed without an answer', async (t) => {
  const listener = await start({ limits: { headersMs: 100, keepAliveMs: 75_000 } })
  for (const bytes of ['\0\0\0\0', '\x16nonsense that says how long it will be']) {
    const client = await rawClient(t, listener.port)
    client.send(bytes)
    t.notMatch(await client.ended().catch(() => ''), /HTTP/)
  }
})

test('a client that sends nothing, or leaves, keeps no connection', async (t) => {
  const listener = await start({ limits: { headersMs: 100, keepAliveMs: 75_000 } })
  const silent = await rawClient(t, listener.port)
  t.equal(await soon(silent.ended()), '')
  const leaving = await rawClient(t, listener.port)
  leaving.socket.resetAndDestroy()
  await until(() => listener.connections === 0)
})

test('who has sent the first byte may be silent for longer', async (t) => {
  const listener = await start({ limits: { headersMs: 100, keepAliveMs: 75_000 } })
  // While this process stands still, the time for the first byte runs out: then the client comes again.
  const socket = await eventually(async () => {
    const one = connectTls({ port: listener.port, host: '127.0.0.1', ca: cert })
    t.teardown(() => void one.destroy())
    one.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    const [said] = await Promise.race([once(one, 'data'), once(one, 'close')]).catch(() => [])
    return /^HTTP\/1.1 200 OK/.test(String(said)) ? one : undefined
  })
  const silent = await rawClient(t, listener.port)
  t.equal(await soon(silent.ended()), '', 'its time is over, and the other one has waited longer')
  socket.end('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
  t.match(await text(socket), /^HTTP\/1.1 200 OK/)
})

test('nor does it prevent the listener from closing', async (t) => {
  const listener = await start()
  const silent = await rawClient(t, listener.port)
  const shaking = await rawClient(t, listener.port)
  shaking.send((await helloOf()).subarray(0, 20))
  const ended = Promise.all([silent.ended(), shaking.ended()].map((end) => end.catch(() => '')))
  await until(() => listener.connections === 2)
  await listener.close()
  t.same(await ended, ['', ''])
})

/** The first bytes of a client that speaks TLS. */
async function helloOf(): Promise<Buffer> {
  const server = createServer().listen(0, '127.0.0.1')
  t.teardown(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const client = connectTls({ port, host: '127.0.0.1' }).on('error', () => undefined)
  const [socket] = (await once(server, 'connection')) as [Socket]
  const [hello] = (await once(socket, 'data')) as [Buffer]
  client.destroy()
  socket.destroy()
  return hello
}
