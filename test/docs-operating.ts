// docs/operating.md names the existing metrics and fields of a log line: all of them, and no others.

import { readFile } from 'node:fs/promises'
import t from 'tap'
import { startBackend } from './fixtures/backend.ts'
import { chat } from './fixtures/backend-model.ts'
import { garbage, silent } from './fixtures/backend-scripts.ts'
import { startGateway } from './fixtures/gateway.ts'
import { until } from './fixtures/until.ts'

const text = await readFile(new URL('../docs/operating.md', import.meta.url), 'utf8')
const sectionOf = (title: string) => text.split(/^## /m).find((one) => one.startsWith(title)) ?? ''

/** Each model breaks in the way that its name says. */
const backend = await startBackend(t, (call) =>
  (call.json['model'] === 'silent' ? silent : call.json['model'] === 'broken' ? garbage : chat())(
    call,
  ),
)
const targets = `{ targets: [{ url: '${backend.url}' }] }`
const broken = `{ url: '${backend.url}', model: broken }`
const second = `{ targets: [${broken}, { url: '${backend.url}', priority: 2 }] }`
const sdk = `import { TracerProvider } from '@opentelemetry/sdk-trace'
export const provider = new TracerProvider()`
const folder = t.testdir({ 'provider.mjs': sdk })
const gateway = await startGateway(t, {
  yaml: `models: { m: ${targets}, silent: ${targets}, broken: ${targets}, second: ${second} }
plugins: { traces: { sdk: '${folder}/provider.mjs' } }`,
})
const shadow = await startGateway(t, {
  redis: gateway.redis,
  yaml: `models: { m: ${targets} }\nplugins: { metering: { enforce: false } }`,
})

t.test('metrics', async (t) => {
  const scrape = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  const named = [...scrape.matchAll(/^# HELP (tollgate_\S+)/gm)].map(([, name = '']) => name)
  const rows = sectionOf('Metrics').matchAll(/^\| `([^`]+)`/gm)
  t.same([...rows].map(([, name = '']) => name).sort(), named.sort())
})

t.test('fields of the line of a request', async (t) => {
  const { key } = await gateway.account(10_000)
  const messages = [{ role: 'user', content: 'Hi' }]
  const leaving = new AbortController()
  const ask = (model: string, more: object = {}) =>
    fetch(`${gateway.url}/v1/chat`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'x-client-request-id': 'mine',
      },
      body: JSON.stringify({ model, messages, stream: true, ...more }),
      signal: leaving.signal,
    })
  await (await ask('m')).text()
  await (await ask('broken', { stream: false })).text()
  await (await ask('second')).text()
  const poor = await shadow.account(0)
  await (await shadow.call('/v1/chat', poor.key, { model: 'm', messages })).text()
  const left = ask('silent').catch(() => undefined)
  await backend.request(5)
  leaving.abort()
  await left
  const lines = () =>
    [...gateway.log, ...shadow.log].map(
      (one) => JSON.parse(one) as Readonly<Record<string, unknown>>,
    )
  await until(() => lines().some((one) => one['client_left'] === true))
  const seen = new Set(
    lines()
      .filter(({ msg }) => msg === 'request')
      .flatMap((line) => Object.keys(line)),
  )
  const sentence = /with `"msg": "request"`: ([^]*?)Bodies, keys/.exec(sectionOf('Log'))?.[1] ?? ''
  const documented = [...sentence.matchAll(/`(\w+)`/g)].map(([, name = '']) => name)
  const values = ['client', 'gateway', 'backend']
  t.strictSame(
    documented.filter((name) => !values.includes(name)).toSorted(),
    [...seen].filter((name) => !['level', 'time', 'msg'].includes(name)).toSorted(),
  )
})
