// Recognisable secrets in every place where a secret may be; then all bytes that left the gateway, in every direction,
// are searched for them. Each may be found only where it belongs, and a test proves that the search finds.

import { readFileSync, readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { Redis } from 'ioredis'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Backend, Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { bytes, failing, sse } from '../fixtures/backend-scripts.ts'
import { adminToken, spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { startRedis } from '../fixtures/redis-server.ts'

type Place = 'clients' | 'backends' | 'log' | 'metrics' | 'admin' | 'redis' | 'disk'

const secrets = {
  targetKey: 'sk-canary-target-key-7Qh2',
  targetHeader: 'canary/target header+7Qh2',
  targetPath: 'canary-path-7Qh2',
  targetQuery: 'canary-query-7Qh2',
  pepper: 'canary-pepper-7Qh2',
  host: 'canary-host-7qh2.invalid',
  errorText: 'canary-error-text-7Qh2',
  privateText: 'canary-private-text-7Qh2',
  prompt: 'canary-prompt-7Qh2',
  answer: 'canary-answer-7Qh2',
  cookie: 'canary-cookie-7Qh2',
  model: 'canary-model-7Qh2',
  guess: 'tg_live_canary7Qh2xx_canary',
  inQuery: 'canary-in-query-7Qh2',
} as const

/** Each secret must be found in these places (otherwise the search has not looked), and nowhere else. */
const belongs: Readonly<Record<string, readonly Place[]>> = {
  targetKey: ['backends'],
  targetHeader: ['backends'],
  // The operator sees the address of a target, without its query.
  targetPath: ['backends', 'admin'],
  targetQuery: ['backends'],
  // For a host that is not found, the operator must learn the name.
  host: ['log', 'admin'],
  errorText: ['clients'],
  prompt: ['backends'],
  answer: ['clients'],
}

const yamlFor = ({ port }: Backend) => `
models:
  m:
    targets:
      - url: 'http://127.0.0.1:${port}/${secrets.targetPath}/v1?q=${secrets.targetQuery}'
        key: ${secrets.targetKey}
        headers: { x-team: '${secrets.targetHeader}' }
  lost: { targets: [{ url: 'http://${secrets.host}/v1', key: ${secrets.targetKey} }] }
plugins: { auth: { pepper: '\${PEPPER}' }, cors: { origins: ['*'] } }
log: { level: debug }
`

/** Repeats everything that a backend was sent. */
const tellTale = `${secrets.targetKey} ${secrets.targetHeader} /${secrets.targetPath}/v1?q=${secrets.targetQuery}`
const error = (message: string) => ({ error: { message, type: 'x', param: null, code: null } })

const scripts: readonly Script[] = [
  chat({ text: () => `${secrets.answer} ` }),
  failing(400, {
    body: error(`${secrets.errorText} ${secrets.targetKey} ${secrets.targetHeader}`),
  }),
  failing(401, { body: error(`${secrets.privateText} ${tellTale}`) }),
  failing(500, { body: error(`${secrets.privateText} ${tellTale}`) }),
  failing(503, { body: error(`${secrets.privateText} ${tellTale}`) }),
  failing(302, { headers: { location: `http://${secrets.privateText}/`, 'set-cookie': 'a=b' } }),
  bytes(`<html>${secrets.privateText} ${tellTale}`, { status: 400 }),
  bytes(`<html>${secrets.privateText} ${tellTale}`),
  sse([`data: ${JSON.stringify(error(`${secrets.targetKey} ${secrets.targetHeader}`))}\n\n`]),
  ({ socket }) => void socket.end(`HTTP/1.1 200 OK\r\n${secrets.privateText} ${tellTale}\r\n\r\n`),
]

interface Ask {
  readonly target?: string
  readonly key: string
  readonly model?: string
  readonly stream?: boolean
  readonly method?: string
}

/** Resolves with all bytes of the answer. */
function ask(
  port: number,
  { target = '/v1/chat', key, model = 'm', ...rest }: Ask,
): Promise<Buffer> {
  const { stream = false, method = 'POST' } = rest
  const messages = [{ role: 'user', content: secrets.prompt }]
  const body = method === 'POST' ? JSON.stringify({ model, messages, stream }) : ''
  const head = [
    `${method} ${target} HTTP/1.1`,
    'Host: a',
    'Connection: close',
    `Authorization: Bearer ${key}`,
    `Cookie: session=${secrets.cookie}`,
    'Origin: https://page.example',
    'Content-Type: application/json',
    `Content-Length: ${body.length}`,
  ]
  const socket = connect(port, '127.0.0.1')
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  return buffer(socket)
}

async function talk(gateway: OwnProcess, backend: Backend, key: string): Promise<Buffer> {
  const port = Number(new URL(gateway.url).port)
  const heard: Buffer[] = []
  for (const script of scripts) {
    for (const stream of [false, true]) {
      backend.once(script)
      heard.push(await ask(port, { key, stream }))
    }
  }
  const { guess, inQuery, model } = secrets
  heard.push(await ask(port, { key, model: 'lost' }))
  heard.push(await ask(port, { key, model }))
  heard.push(await ask(port, { key: guess }))
  for (const target of ['/v1/models', '/v1/none', '/api/billing/balance', '/api/billing/usage']) {
    heard.push(await ask(port, { key, method: 'GET', target: `${target}?api_key=${inQuery}` }))
  }
  heard.push(await ask(port, { key, method: 'GET', target: '/api/billing/transactions' }))
  heard.push(await ask(port, { key, method: 'OPTIONS' }))
  return Buffer.concat(heard)
}

function sentTo(backend: Backend): Buffer {
  const texts = backend.requests.map(({ method, path, rawHeaders, body }) =>
    [method, path, ...rawHeaders, body.toString('latin1')].join('\n'),
  )
  return Buffer.from(texts.join('\n'), 'latin1')
}

async function adminTells(gateway: OwnProcess, id: string): Promise<Buffer> {
  const paths = ['config', 'targets', 'accounts', `accounts/${id}/keys`, 'audit']
  const answers = await Promise.all(paths.map(async (path) => gateway.admin('GET', path)))
  return Buffer.from((await Promise.all(answers.map((answer) => answer.text()))).join('\n'))
}

/** All keys with their content, each type read by the commands that show it uncompressed. */
async function redisTells(socket: string): Promise<Buffer> {
  const redis = new Redis(socket)
  const read: Readonly<Record<string, (key: string) => Promise<unknown>>> = {
    string: (key) => redis.get(key),
    hash: (key) => redis.hgetall(key),
    zset: (key) => redis.zrange(key, '0', '-1'),
    set: (key) => redis.smembers(key),
    list: (key) => redis.lrange(key, 0, -1),
    stream: (key) => redis.xrange(key, '-', '+'),
  }
  const told: unknown[] = []
  for (const key of await redis.keys('*')) {
    const reader = read[await redis.type(key)]
    if (!reader) throw new Error(`nobody reads ${key}`)
    told.push(key, await reader(key))
  }
  await redis.quit()
  return Buffer.from(JSON.stringify(told))
}

function filesBelow(dir: string): Buffer {
  const found = readdirSync(dir, { recursive: true, withFileTypes: true })
  const files = found.filter((one) => one.isFile()).map((one) => join(one.parentPath, one.name))
  return Buffer.concat(files.flatMap((file) => [Buffer.from(`${file}\n`), readFileSync(file)]))
}

/** The secret as it is, and in the encodings in which others might write it. */
function formsOf(secret: string): readonly string[] {
  const raw = Buffer.from(secret)
  // In base64 a text can begin at three places; the ends, which depend on its neighbours, are cut off.
  const shifted = [0, 1, 2].map((at) =>
    Buffer.concat([Buffer.alloc(at), raw])
      .toString('base64')
      .slice(at === 0 ? 0 : 4, -4),
  )
  return [secret, encodeURIComponent(secret), raw.toString('hex'), ...shifted]
}

/** `name in place`, sorted. */
function search(
  canaries: Readonly<Record<string, string>>,
  places: Readonly<Record<string, Buffer>>,
): readonly string[] {
  const hits: string[] = []
  for (const [name, secret] of Object.entries(canaries)) {
    for (const [place, content] of Object.entries(places)) {
      const isThere = formsOf(secret).some((form) => content.includes(form))
      if (isThere) hits.push(`${name} in ${place}`)
    }
  }
  return hits.toSorted()
}

function plantsOf(secret: string): readonly string[] {
  const inBase64 = ['', 'a', 'ab'].map((start) => btoa(`${start}${secret}:rest`))
  return [`x${secret}x`, `?a=${encodeURIComponent(secret)}`, ...inBase64]
}

async function scene(t: Test) {
  const backend = await startBackend(t)
  const redis = await startRedis(t, { args: ['--appendonly', 'yes', '--appendfsync', 'always'] })
  const env = { PEPPER: secrets.pepper }
  const gateway = await spawnGateway(t, { yaml: yamlFor(backend), redis, env })
  const { id, key } = await gateway.account(1_000_000)
  const clients = await talk(gateway, backend, key)
  const metrics = Buffer.from(await (await fetch(`${gateway.adminUrl}/metrics`)).text())
  const admin = await adminTells(gateway, id)
  await gateway.stop()
  const places: Record<Place, Buffer> = {
    clients,
    metrics,
    admin,
    backends: sentTo(backend),
    log: Buffer.from(gateway.log.join('')),
    redis: await redisTells(redis.socket),
    disk: Buffer.concat([filesBelow(redis.dir), filesBelow(gateway.dataDir)]),
  }
  return { places, canaries: { ...secrets, key, keySecret: key.slice(-36), adminToken } }
}

t.test('no secret is anywhere but where it belongs', async (t) => {
  const { places, canaries } = await scene(t)
  const expected = Object.entries(belongs).flatMap(([name, where]) =>
    where.map((place) => `${name} in ${place}`),
  )
  t.same(search(canaries, places), expected.toSorted())
  t.match(places.disk.toString('latin1'), /XADD/, 'the log of Redis was read')

  for (const [place, content] of Object.entries(places)) {
    for (const text of plantsOf(secrets.pepper)) {
      const planted = { [place]: Buffer.concat([content, Buffer.from(text), content]) }
      t.same(search({ pepper: secrets.pepper }, planted), [`pepper in ${place}`], text)
    }
  }
})

t.test(
  'a secret that is put into Redis is found in its keys, its values and its file',
  async (t) => {
    const redis = await startRedis(t, { args: ['--appendonly', 'yes', '--appendfsync', 'always'] })
    const client = new Redis(redis.socket)
    const { pepper } = secrets
    const plants = [
      () => client.set(pepper, '1'),
      () => client.set('a', pepper),
      () => client.hset('a', 'field', pepper),
      () => client.hset('a', pepper, 'value'),
      () => client.xadd('a', '*', 'field', `{"x":"${pepper}"}`),
      () => client.zadd('a', 0, pepper),
    ]
    for (const plant of plants) {
      await client.flushall()
      await plant()
      const places = { redis: await redisTells(redis.socket), disk: filesBelow(redis.dir) }
      t.same(search({ pepper }, places), ['pepper in disk', 'pepper in redis'])
    }
    await client.quit()
  },
)
