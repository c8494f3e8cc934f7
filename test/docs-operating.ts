// docs/operating.md names the metrics, admin routes and fields of a log line that there are: all of them, and no others.

import { readFile } from 'node:fs/promises'
import t from 'tap'
import { startBackend } from './fixtures/backend.ts'
import { startGateway } from './fixtures/gateway.ts'
import { admin } from '../src/plugins/admin.ts'

const text = await readFile(new URL('../docs/operating.md', import.meta.url), 'utf8')
const sectionOf = (title: string) => text.split(/^## /m).find((one) => one.startsWith(title)) ?? ''
const firstCells = (title: string) =>
  [...sectionOf(title).matchAll(/^\| `([^`]+)`/gm)].map(([, name = '']) => name)

const backend = await startBackend(t)
const gateway = await startGateway(t, {
  yaml: `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
})

t.test('metrics', async (t) => {
  const scrape = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  const named = [...scrape.matchAll(/^# HELP (tollgate_\S+)/gm)].map(([, name = '']) => name)
  t.same(firstCells('Metrics').sort(), named.sort())
})

t.test('admin routes', async (t) => {
  const { id } = await gateway.account(1)
  const documented = firstCells('Admin API')
  for (const line of documented) {
    const [method = '', path = ''] = line.split(' ')
    const answer = await gateway.admin(method, path.replace('/admin/', '').replace(':id', id))
    const { error } = (await answer.json()) as { error?: { code: string } }
    t.notMatch(error?.code, /route_not_found|method_not_allowed/, line)
  }
  const { routes = [] } = await admin.setup(gateway.gateway, admin.schema.parse({}))
  t.same(documented.sort(), routes.map(({ method, path }) => `${method} ${path}`).sort())
})

t.test('fields of the line of a request', async (t) => {
  const { key } = await gateway.account(10_000)
  const messages = [{ role: 'user', content: 'Hi' }]
  await (await gateway.call('/v1/chat', key, { model: 'm', messages, stream: true })).text()
  const line = JSON.parse(gateway.log.at(-1) ?? '{}') as object
  const documented = new Set([...sectionOf('Log').matchAll(/`(\w+)`/g)].map(([, name]) => name))
  for (const name of Object.keys(line)) {
    if (!['level', 'time', 'msg'].includes(name)) t.ok(documented.has(name), name)
  }
})
