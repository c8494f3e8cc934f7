// `npm run try:image`: builds the image of the Dockerfile and runs it as docs/deploying.md says, beside a real Redis and
// before a real llama.cpp server: read-only, as its own user. It shows that streams come whole and cost what the server
// has counted, the health check answers, SIGTERM drains, and after `kill -9` nothing is lost and the books are even. Exits with 1 if not. Needs root and Linux; on Debian and Ubuntu it
// installs debootstrap and buildah. Docker and a registry of images are not needed, and nothing is left running.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { chown, mkdir, readFile, readdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { freePort } from '../test/fixtures/free-port.ts'
import { send } from '../test/fixtures/gateway.ts'
import { connectLink } from '../test/fixtures/ledger.ts'
import { metricOf } from '../test/fixtures/metric.ts'
import { Reading, openHold } from '../test/fixtures/money.ts'
import { startRedis } from '../test/fixtures/redis-server.ts'
import { teardownOf } from '../test/fixtures/teardown.ts'
import { tempDir } from '../test/fixtures/temp-dir.ts'
import { until } from '../test/fixtures/until.ts'
import { buildImage } from './image/build.ts'
import { containerOf } from './image/container.ts'
import { startModelServer } from './model-server/start.ts'

const token = randomBytes(24).toString('base64url')
const mostMegabytes = 60

await using undo = new AsyncDisposableStack()
const t = teardownOf(undo)
const contextTokens = 32_768
const server = await startModelServer({ contextTokens })
undo.defer(() => server.stop())
const image = await buildImage(undo)
const megabytes = image.addedBytes / 1_000_000
console.log(`the image adds ${megabytes.toFixed(1)} MB to its base`)
assert.ok(megabytes <= mostMegabytes, `more than ${mostMegabytes} MB`)

const folder = await tempDir(t)
const ports = { redis: await freePort(), listen: await freePort(), admin: await freePort() }
const redis = await startRedis(t, { args: ['--port', String(ports.redis), '--appendonly', 'yes'] })
const url = `http://127.0.0.1:${ports.listen}`
const adminUrl = `http://127.0.0.1:${ports.admin}`
const container = containerOf(
  t,
  { ...image, env: [...image.env, `ADMIN_PORT=${ports.admin}`] },
  {
    '/config': await writeConfig(),
    '/alone.yaml': join(folder, 'etc/gateway.yaml'),
    '/data': await makeData(),
  },
)

let gateway = await start()
await isConfined()
const key = await makeKey()
assert.match(await (await ask()).text(), /data: \[DONE\]\n\n$/)
assert.equal((await container.exec(image.healthCheck)).code, 0)
await isTakenUp()
const counted = await askServer()
console.log('streams came whole, of the demo and of llama.cpp, and the health check answers')

await drains()
await survives()
const { spent } = await booksAreEven()
console.log(`ok: drained, killed, started again, and the books are even: ${spent} tokens spent`)

async function writeConfig(): Promise<string> {
  const etc = join(folder, 'etc')
  const yaml = `listen: ${ports.listen}
admin: { listen: '127.0.0.1:${ports.admin}', token: '${token}' }
data: /data
redis: redis://127.0.0.1:${ports.redis}
models:
  demo: { targets: [demo] }
  tiny:
    targets: [{ url: '${server.url}' }]
    price: { input: 1, output: 4 }
    context_window: ${contextTokens}
    extra_parameters: [ignore_eos]
plugins: { metering: { lease: 5s } }
`
  await mkdir(etc)
  await writeFile(join(etc, 'gateway.yaml'), yaml)
  return etc
}

/** A new file takes the place of the old one, as editors and git do it. */
async function isTakenUp(): Promise<void> {
  const { out } = await container.exec(['tollgate', 'check', '/alone.yaml'])
  assert.match(out, /mounted without its folder/)
  assert.equal((await container.exec(['tollgate', 'check'])).out, '0 problems\n')
  const file = join(folder, 'etc/gateway.yaml')
  const yaml = await readFile(file, 'utf8')
  await writeFile(`${file}.new`, yaml.replace('models:\n', 'models:\n  new: { targets: [demo] }\n'))
  await rename(`${file}.new`, file)
  await until(async () =>
    (await (await send(`${url}/v1/models`, { token: key.key })).text()).includes('"new"'),
  )
}

/** The image's user must be able to write to it. */
async function makeData(): Promise<string> {
  const data = join(folder, 'data')
  await mkdir(data, { mode: 0o700 })
  await chown(data, 1000, 1000)
  return data
}

async function start() {
  const started = await container.start()
  await started.said(/listening on/)
  return started
}

async function isConfined(): Promise<void> {
  const words = 'id -u; grep ^CapBnd: /proc/self/status; touch /tmp/x /data/x && ! touch /app/x'
  const { code, out } = await container.exec(['sh', '-c', words])
  assert.equal(code, 0, 'only /tmp and /data can be written to')
  assert.match(out, /^1000\nCapBnd:\t0+\n/, 'not root, without capabilities')
}

async function admin<T>(path: string, body?: object): Promise<T> {
  const answer = await send(`${adminUrl}/admin/${path}`, { token, body })
  assert.ok(answer.ok, `${path}: ${answer.status}`)
  return (await answer.json()) as T
}

async function makeKey() {
  const { id } = await admin<{ id: string }>('accounts', { name: 'acme' })
  await admin(`accounts/${id}/topup`, { amount: 1_000_000 })
  return { account: id, ...(await admin<{ key: string }>(`accounts/${id}/keys`, {})) }
}

/** An answer of two or three seconds. */
function ask(): Promise<Response> {
  return askModel({ model: 'demo' }, 'a b c '.repeat(30))
}

function askModel(fields: object, content: string): Promise<Response> {
  const body = { ...fields, stream: true, messages: [{ role: 'user', content }] }
  return send(`${url}/v1/chat/completions`, { token: key.key, body })
}

/** A stream of llama.cpp; returns the usage that the server has reported. */
async function askServer() {
  const fields = { model: 'tiny', max_tokens: 60, stream_options: { include_usage: true } }
  const text = await (await askModel(fields, 'What does a gateway do?')).text()
  assert.match(text, /data: \[DONE\]\n\n$/)
  const count = (name: string) => Number(new RegExp(`"${name}": ?(\\d+)`).exec(text)?.[1])
  const [prompt, completion] = [count('prompt_tokens'), count('completion_tokens')]
  assert.ok(prompt && completion, 'llama.cpp has reported its usage')
  return { prompt, completion }
}

/** SIGTERM in the middle of a stream: the stream comes whole, and the exit code is 0. */
async function drains(): Promise<void> {
  const reading = new Reading(await ask())
  await reading.until('"content":"')
  const exit = gateway.signal('SIGTERM')
  assert.match(await reading.end(), /data: \[DONE\]\n\n$/)
  assert.equal(await exit, 0)
  assert.notEqual((await container.exec(image.healthCheck)).code, 0)
  console.log('SIGTERM: the stream came whole, exit code 0')
  gateway = await start()
}

/** A stream ends while Redis is away, and the gateway is killed; then it is killed in the middle of a stream of llama.cpp. */
async function survives(): Promise<void> {
  const first = new Reading(await ask())
  await first.until('"content":"')
  await redis.stop()
  assert.match(await first.end(), /data: \[DONE\]\n\n$/)
  await until(async () => (await metricOf({ adminUrl }, 'tollgate_spool_entries')) > 0)
  await gateway.signal('SIGKILL')
  const kept = await readdir(join(folder, 'data'), { recursive: true })
  assert.ok(
    kept.some((name) => /spool-.*\.ndjson$/.test(name)),
    'the settlement is on disk',
  )
  await redis.restart()
  gateway = await start()
  console.log('kill -9: the settlement was kept on disk, and the next start took it up')
  // Takes llama.cpp some ten seconds.
  const long = { model: 'tiny', max_tokens: 30_000, ignore_eos: true }
  const running = new Reading(await askModel(long, 'Tell me of a gateway.'))
  const link = await connectLink(t, redis.socket)
  await until(async () => (await openHold(link, { ...key, id: key.account })).charged > 0)
  await gateway.signal('SIGKILL')
  await assert.rejects(running.end(), 'the stream was cut')
  gateway = await start()
  console.log('kill -9 in the middle of a stream of llama.cpp: it was cut')
}

interface Books {
  readonly spent: number
  readonly reserved: number
  readonly owed: number
}

interface Charge {
  readonly model: string
  readonly amount: number
  readonly estimated: boolean
}

/** When the hold of the stream that was cut has been charged by its last checkpoint, a lease later. */
async function booksAreEven(): Promise<Books> {
  const balance = () => admin<Books>(`accounts/${key.account}/balance`)
  await until(async () => (await balance()).reserved === 0)
  const { data } = await admin<{ data: readonly Charge[] }>(
    `accounts/${key.account}/transactions?type=charge`,
  )
  const [cut, ...others] = data.filter(({ estimated }) => estimated)
  assert.ok(cut?.model === 'tiny' && others.length === 0, 'the one that was cut, by its checkpoint')
  const whole = data.filter(({ estimated }) => !estimated)
  assert.equal(whole.length, 4, 'each whole stream was charged once')
  const ofServer = whole.filter(({ model }) => model === 'tiny')
  const cost = counted.prompt + 4 * counted.completion
  assert.deepEqual(
    ofServer.map(({ amount }) => -amount),
    [cost],
    'what llama.cpp has counted was charged',
  )
  const audit = await container.exec(['tollgate', 'audit'])
  assert.equal(audit.code, 0, audit.out)
  return balance()
}
