// config/compose.yaml is what Docker Compose takes, and its parts work together with the files and arguments that it
// gives them. Docker itself is not used.

import { Ajv2020 } from 'ajv/dist/2020.js'
import { existsSync } from 'node:fs'
import { readFile, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { loadConfig } from '../../src/config/load.ts'
import { plugins } from '../../src/gateway.ts'
import { composeFolder, readCompose, startParts } from '../fixtures/compose.ts'
import { send } from '../fixtures/gateway.ts'
import { startPrometheus } from '../fixtures/prometheus.ts'
import { root } from '../fixtures/source.ts'

const token = 'admin-token-for-compose'
const compose = await readCompose({
  TOLLGATE_ADMIN_TOKEN: token,
  REDIS_PASSWORD: 'password-of-redis',
  S3_SECRET_ACCESS_KEY: 'secret-for-s3',
  GRAFANA_PASSWORD: 'secret-for-grafana',
})

const schema = join(root, 'test/fixtures/compose-spec.json')
const ajv = new Ajv2020({ strict: false, allErrors: true, validateFormats: false })
const isCompose = ajv.compile(JSON.parse(await readFile(schema, 'utf8')) as object)

t.test('the file is valid by the Compose specification', async (t) => {
  t.ok(isCompose(compose), ajv.errorsText(isCompose.errors))
  const mistyped = { ...compose, services: { redis: { image: 'redis', comand: [] } } }
  t.notOk(isCompose(mistyped), 'an unknown key is refused')
})

t.test('every file that is mounted exists', async (t) => {
  const mounted = Object.values(compose.services)
    .flatMap(({ volumes = [] }) => volumes)
    .map((volume) => volume.split(':')[0] ?? '')
    .filter((path) => path.startsWith('.'))
  t.ok(mounted.includes('./proxies/nginx.conf'))
  const lacking = mounted.filter((path) => !existsSync(join(composeFolder, path)))
  t.strictSame(lacking, [])
})

t.test('a gateway has more time to stop than its drain takes', async (t) => {
  const env = compose.services['gateway1']?.environment ?? {}
  const loaded = await loadConfig(join(composeFolder, 'compose/gateway.yaml'), plugins, { env })
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  for (const name of ['gateway1', 'gateway2']) {
    const seconds = Number.parseInt(compose.services[name]?.stop_grace_period ?? '', 10)
    t.ok(1000 * seconds >= loaded.config.drainMs + 30_000, `${name}: ${seconds} s`)
  }
})

t.test('its parts, by hand: a stream and a file through nginx, and a graph', async (t) => {
  const { url, gateways, redis } = await startParts(t, compose)
  const [first, second] = gateways
  const admin = async (path: string, body: object) => {
    const answer = await send(`${first.adminUrl}/admin/${path}`, { token, body })
    return (await answer.json()) as { id: string; key: string }
  }
  const { id } = await admin('accounts', { name: 'acme' })
  await admin(`accounts/${id}/topup`, { amount: 100_000 })
  const { key } = await admin(`accounts/${id}/keys`, {})

  const messages = [{ role: 'user', content: 'Hi' }]
  const stream = () =>
    send(`${url}/v1/chat/completions`, {
      token: key,
      body: { model: 'demo', stream: true, messages },
    })
  for (let i = 0; i < 4; i++) t.match(await (await stream()).text(), /data: \[DONE\]\n\n$/)
  for (const gateway of [first, second]) {
    const lines = gateway.log.filter((line) => line.includes('"route":"/v1/chat/completions"'))
    t.ok(lines.length > 0, 'nginx sends requests to both')
  }

  const session = await send(`${url}/api/chat/sessions`, { token: key, body: {} })
  const { id: sessionId } = (await session.json()) as { id: string }
  const form = new FormData()
  form.set('session_id', sessionId)
  form.set('file', new File(['kept in S3'], 'note.txt', { type: 'text/plain' }))
  const uploaded = await send(`${url}/api/files/upload`, { token: key, body: form })
  const file = (await uploaded.json()) as { id: string }
  const content = await send(`${url}/api/files/${file.id}`, { token: key })
  t.equal(await content.text(), 'kept in S3')

  t.ok((await readdir(redis.dir)).includes('appendonlydir'), 'Redis keeps what it has')
  const prometheus = await startPrometheus(
    t,
    gateways.map(({ adminUrl }) => adminUrl),
  )
  const streams = 'sum(tollgate_http_requests_total{route="/v1/chat/completions"})'
  const [graph] = await prometheus.range(streams, 1)
  t.equal(graph?.values.at(-1)?.[1], '4', 'a graph has the streams of both gateways')

  const audit = await send(`${second.adminUrl}/admin/audit`, { token })
  t.match(await audit.json(), { accounts: 1, differences: [] })
  t.strictSame(await Promise.all(gateways.map(({ stop }) => stop())), [0, 0])
})
