// The files of config/proxies/, each with the real program, TLS and HTTP/2 in front: events are not held back, uploads and
// long answers pass, and the gateway knows who the client is.

import { hash, randomBytes } from 'node:crypto'
import { connect, constants } from 'node:http2'
import type { ClientHttp2Session } from 'node:http2'
import { request as httpsRequest } from 'node:https'
import { connect as connectTls } from 'node:tls'
import t from 'tap'
import type { Test } from 'tap'
import {
  allProxyNames,
  proxyNames,
  readProxyFile,
  startProxy,
} from '../../scripts/rolling/proxy.ts'
import type { ProxyName } from '../../scripts/rolling/proxy.ts'
import { model } from '../../src/config/model-keys.ts'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { silent } from '../fixtures/backend-scripts.ts'
import { certificate } from '../fixtures/certificate.ts'
import { formOf } from '../fixtures/files-uploads.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { boundary } from '../fixtures/multipart.ts'
import { eventually, soon, until } from '../fixtures/until.ts'

/** Where this client comes from: not the proxy's address. */
const clientAddress = '127.0.0.9'

/** A gateway, a proxy in front of it, and a client's connection to the proxy. */
async function openPath(t: Test, name: ProxyName, { timeout = '1h', heartbeat = '15s' } = {}) {
  const backend = await startBackend(t)
  const gateway = await spawnGateway(t, {
    yaml: `models: { m: { targets: [{ url: '${backend.url}' }] } }
limits: { heartbeat: ${heartbeat} }`,
    listen: 'trusted_proxies: [127.0.0.1/32]',
  })
  const portOf = (url: string) => Number(new URL(url).port)
  const upstreams = [{ port: portOf(gateway.url), adminPort: portOf(gateway.adminUrl) }]
  const url = await startProxy(t, name, { upstreams, timeout, tls: certificate })
  const { key } = await gateway.account(1_000_000)
  const session = connectFrom(url)
  t.teardown(() => session.destroy())
  const ask = (path: string, body: string | Buffer, headers = {}) =>
    request(session, { path, body, headers: { authorization: `Bearer ${key}`, ...headers } })
  const stream = () => ask('/v1/chat/completions', question)
  return { backend, gateway, session, url, key, ask, stream }
}

const hello = { role: 'user', content: 'Hi' }
const question = JSON.stringify({ model: 'm', stream: true, messages: [hello] })

function connectFrom(url: string): ClientHttp2Session {
  const { port } = new URL(url)
  const to = { port: Number(port), host: '127.0.0.1', localAddress: clientAddress }
  const security = { ca: certificate.cert, servername: 'localhost', ALPNProtocols: ['h2'] }
  return connect(url, { createConnection: () => connectTls({ ...to, ...security }) })
}

interface Asked {
  readonly path: string
  readonly body: string | Buffer
  readonly headers: Readonly<Record<string, string>>
}

function request(session: ClientHttp2Session, { path, body, headers }: Asked) {
  const own = { ':method': 'POST', ':path': path, 'content-type': 'application/json' }
  const stream = session.request({ ...own, ...headers })
  let received = ''
  stream.setEncoding('utf8').on('data', (piece: string) => (received += piece))
  const ended = new Promise<string>((resolve, reject) => {
    stream.once('end', () => resolve(received)).once('error', reject)
  })
  stream.end(body)
  return {
    ended,
    leave: () => stream.close(constants.NGHTTP2_CANCEL),
    async until(isThere: (received: string) => boolean) {
      await eventually(async () => (isThere(received) ? received : undefined))
    },
  }
}

for (const name of allProxyNames) {
  t.test(`${name}, over TLS and HTTP/2`, async (t) => {
    const { backend, gateway, session, ask, stream } = await openPath(t, name)

    const gate = new Gate()
    backend.on(chat({ chunks: 3, gate }))
    const reading = stream()
    gate.next() // the role
    for (const word of ['w0', 'w1', 'w2']) {
      gate.next()
      await reading.until((received) => received.includes(word))
      t.pass(`${word} arrives before the next event is sent`)
    }
    gate.open()
    t.match(await soon(reading.ended), /data: \[DONE\]\n\n$/)
    t.equal(session.alpnProtocol, 'h2')

    const claim = { 'x-forwarded-for': '203.0.113.7' }
    const answer = await ask('/api/chat/sessions', '{}', claim).ended
    const line = await eventually(async () =>
      gateway.stdout.find((one) => one.includes('"route":"/api/chat/sessions"')),
    )
    const { ip } = JSON.parse(line) as { ip: string }
    t.equal(ip, clientAddress, 'the gateway knows the client, whatever the client claims')

    const { id } = JSON.parse(answer) as { id: string }
    const content = Buffer.alloc(100_000_000, randomBytes(1_000))
    const type = { 'content-type': `multipart/form-data; boundary=${boundary}` }
    const form = formOf({ session: id }, content)
    const uploaded = await ask('/api/files/upload', form, type).ended
    const sha256 = hash('sha256', content, 'hex')
    t.match(JSON.parse(uploaded), { bytes: 100_000_000, sha256 }, 'an upload of 100 MB')
  })
}

for (const name of allProxyNames) {
  t.test(`${name}: a client that leaves before its first token ends the generation`, async (t) => {
    const { backend, url, key, stream } = await openPath(t, name)
    backend.on(silent)
    const reading = stream()
    reading.ended.catch(() => undefined)
    const over2 = await backend.request(0)
    reading.leave()
    await soon(over2.closed)
    t.pass('over HTTP/2')

    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const options = { method: 'POST', ca: certificate.cert, headers, agent: false }
    const asking = httpsRequest(`${url}/v1/chat/completions`, options).on('error', () => undefined)
    asking.end(question)
    const over1 = await backend.request(1)
    asking.destroy()
    await soon(over1.closed)
    t.pass('over HTTP/1.1')
  })
}

for (const name of proxyNames) {
  // With time-outs of a second in place of an hour.
  const timeout = '1s'

  t.test(`${name}: heartbeats keep a silent stream longer than its time-outs`, async (t) => {
    const { backend, stream } = await openPath(t, name, { timeout, heartbeat: '200ms' })
    const gate = new Gate()
    backend.on(chat({ chunks: 2, gate }))
    const reading = stream()
    gate.next(2)
    // Two seconds.
    await reading.until((received) => received.split('\n:').length > 10)
    gate.open()
    t.match(await soon(reading.ended), /w1.*data: \[DONE\]\n\n$/s)
  })

  t.test(`${name}: its time-outs end a silent stream without heartbeats`, async (t) => {
    const { backend, stream } = await openPath(t, name, { timeout })
    const gate = new Gate()
    backend.on(chat({ chunks: 2, gate }))
    const reading = stream()
    gate.next(2)
    await reading.until((received) => received.includes('w0'))
    let ending: string | undefined
    reading.ended.then(
      (text) => (ending = text),
      () => (ending = 'cut'),
    )
    await until(() => ending !== undefined)
    t.notMatch(ending, /\[DONE\]/)
  })
}

t.test('no time-out of a proxy is shorter than the longest answer', async (t) => {
  const { total } = model.parse({ targets: ['demo'] }).timeouts
  t.ok(total <= 3_600_000, `${total} ms`)
  const [nginx, haproxy, caddy] = await Promise.all(allProxyNames.map(readProxyFile))
  t.match(nginx, /proxy_read_timeout 1h;\s+proxy_send_timeout 1h;/)
  t.match(haproxy, /timeout client 1h\s+timeout server 1h/)
  t.notMatch(caddy, /read_timeout|write_timeout|response_header_timeout/)
})
