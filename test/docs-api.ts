// Compares docs/api.md with the gateway: its routes are those of the plugins; the statuses, limits and bounds that it
// documents are the real ones.

import { readFile } from 'node:fs/promises'
import t from 'tap'
import { errorTable } from '../src/error-table.ts'
import { plugins } from '../src/gateway.ts'
import type { Route } from '../src/exchange.ts'
import { groups } from '../src/openapi/groups.ts'
import { parseLine } from '../src/openapi/operation.ts'
import { startAnswers } from './fixtures/api-answers.ts'
import { apiPage, codesIn, documentedRoutes, tableBelow } from './fixtures/api-page.ts'
import { adminToken } from './fixtures/gateway.ts'

const { say, makeAccount, gateway } = await startAnswers(t)
const { id: account, key } = await makeAccount()

t.test('the list at the top leads to each part', (t) => {
  const [top = '', ...parts] = apiPage.split(/^## /m)
  for (const part of parts) {
    const [title = ''] = part.split('\n')
    t.ok(top.includes(`[${title}](#`), title)
  }
  t.end()
})

t.test(
  'routes: exactly those that the plugins have, with their scope, query and body',
  async (t) => {
    const routes: Route[] = []
    for (const plugin of plugins) {
      const running = await plugin.setup(gateway, gateway.config.plugins.get(plugin.name))
      t.teardown(() => running.close?.())
      routes.push(...(running.routes ?? []))
    }
    const documented = documentedRoutes()
    t.strictSame(
      documented.map(({ line }) => line).toSorted(),
      routes.map(({ method, path }) => `${method} ${path}`).toSorted(),
    )
    const inDocument = groups.flatMap(({ operations }) =>
      Object.keys(operations).flatMap((line) => {
        const { method, paths } = parseLine(line)
        return paths.map((path) => `${method} ${path}`)
      }),
    )
    // Preflights are a browser's affair.
    const ofPublicPort = routes.filter(
      ({ listener, method }) => listener !== 'admin' && method !== 'OPTIONS',
    )
    t.strictSame(
      inDocument.toSorted(),
      ofPublicPort.map(({ method, path }) => `${method} ${path}`).toSorted(),
      '/openapi.json has each route of the public port',
    )
    for (const { line, facts } of documented) {
      const route = routes.find(({ method, path }) => `${method} ${path}` === line)
      if (!route) continue
      const isOnce = facts.endsWith(once)
      t.equal(isOnce ? facts.slice(0, -once.length).trimEnd() : facts, factsOf(route), line)
      const isMarked = route.listener !== 'admin' && route.access !== 'cookie'
      if (isMarked) t.equal(isOnce, route.creates === true, `${line}: repetition`)
    }
  },
)

const once = 'Takes `Idempotency-Key`.'

function factsOf({ access, query = [], body }: Route): string {
  const needs = {
    'any-key': 'any key',
    'admin-token': 'the admin token',
    cookie: "the page's cookie",
    anybody: 'no key',
  }
  const need = access in needs ? needs[access as keyof typeof needs] : `scope \`${access}\``
  const asked = query.map((name) => `\`${name}\``).join(', ')
  const bodies = { none: '', json: ' Body: JSON.', stream: ' Body: `multipart/form-data`.' }
  return `Needs ${need}.${asked && ` Query: ${asked}.`}${bodies[body]}`
}

t.test('codes: each has its status', async (t) => {
  const said = [...apiPage.matchAll(/(\d{3})((?:,?\s`[a-z]+_[a-z_]+`)+)/g)].flatMap(
    ([, status = '', codes = '']) =>
      codesIn(codes).map((code) => ({ code, status: Number(status) })),
  )
  t.ok(said.length > 60)
  for (const { code, status } of said) {
    const row = new Map<string, { readonly status: number }>(Object.entries(errorTable)).get(code)
    const isConflict = code === 'insufficient_balance' && status === 409
    t.ok(row?.status === status || isConflict, `${status} ${code}`)
  }
})

t.test('limits: each key has its default', async (t) => {
  const page = await readFile(new URL('../docs/configuration.md', import.meta.url), 'utf8')
  for (const [, key = '', preset = ''] of tableBelow('Limits')) {
    const row = page.split('\n').find((line) => line.startsWith(`| ${key} `))
    t.equal(row?.split('|')[3]?.trim(), preset, key)
  }
})

t.test('bodies: the bounds that are written as words', async (t) => {
  const status = async (line: string, body: object) =>
    (await say(line, { key: line.includes('/admin/') ? adminToken : key, body })).status
  const pairs = (count: number, name = 'k', value = 'v') =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`${name}${i}`, value]))
  const sessions = 'POST /api/chat/sessions'
  const accounts = 'POST /admin/accounts'
  for (const [line, good, bad] of [
    [sessions, { title: 'x'.repeat(200) }, { title: 'x'.repeat(201) }],
    [sessions, { instructions: 'x'.repeat(32_768) }, { instructions: 'x'.repeat(32_769) }],
    [sessions, { metadata: pairs(16) }, { metadata: pairs(17) }],
    [sessions, { metadata: pairs(1, 'x'.repeat(63)) }, { metadata: pairs(1, 'x'.repeat(64)) }],
    [
      sessions,
      { metadata: pairs(1, 'k', 'x'.repeat(512)) },
      { metadata: pairs(1, 'k', 'x'.repeat(513)) },
    ],
    [accounts, { name: 'a', metadata: pairs(16) }, { name: 'b', metadata: pairs(17) }],
    [
      accounts,
      { name: 'c', metadata: pairs(1, 'k', 'x'.repeat(512)) },
      { name: 'd', metadata: pairs(1, 'k', 'x'.repeat(513)) },
    ],
    [accounts, { name: 'acct' }, { name: 'acct_1' }],
    [accounts, { name: 'e' }, { name: 'e' }],
  ] as const) {
    t.equal(await status(line, good), 201, JSON.stringify(good).slice(0, 60))
    t.equal(await status(line, bad), 400, JSON.stringify(bad).slice(0, 60))
  }
  t.equal(await status(`POST /admin/accounts/${account}/adjust`, { amount: 0, note: 'x' }), 400)
})

t.test('conventions', async (t) => {
  const sessions = '/api/chat/sessions'
  const members = Object.fromEntries(Array.from({ length: 257 }, (_, i) => [`k${i}`, 1]))
  const deep = (levels: number): unknown => (levels === 0 ? 1 : { a: deep(levels - 1) })
  const { body: session } = await say(`POST ${sessions}`, { key })
  for (const [line, body, expected] of [
    [`GET /v1${sessions}`, undefined, 200],
    [`HEAD ${sessions}`, undefined, 200],
    [`GET ${sessions}/`, undefined, 'session_not_found'],
    ['GET /v1/Models', undefined, 'route_not_found'],
    ['GET /v1/models?strange=1', undefined, 200],
    [`GET ${sessions}?strange=1`, undefined, 'unknown_parameter'],
    [`GET /v1${sessions}?strange=1`, undefined, 'unknown_parameter'],
    [`GET ${sessions}?limit=100`, undefined, 200],
    [`GET ${sessions}?limit=101`, undefined, 'invalid_parameter'],
    [`GET ${sessions}?limit=0`, undefined, 'invalid_parameter'],
    [`GET ${sessions}?after=${session.id}&before=${session.id}`, undefined, 'invalid_parameter'],
    [`GET /api/files?session_id=${session.id.replace(/.$/, '_')}`, undefined, 'session_not_found'],
    [`POST ${sessions}`, { strange: 1 }, 'unknown_parameter'],
    [`POST ${sessions}`, { Title: 'x' }, 'invalid_json'],
    [`POST ${sessions}`, members, 'invalid_json'],
    ['POST /v1/chat', { model: 'm', messages: [deep(63)] }, 'invalid_json'],
    ['POST /v1/chat', { model: 'm', messages: [deep(62)] }, 200],
    [`POST ${sessions}/${session.id}/messages`, { content: '' }, 'invalid_parameter'],
    [
      `POST ${sessions}/${session.id}/messages`,
      { messages: [], content: 'x' },
      'invalid_parameter',
    ],
    [`POST ${sessions}/${session.id}/messages`, { content: 'x', n: 2 }, 'invalid_parameter'],
  ] as const) {
    const { status, body: said } = await say(line, { key, body })
    const code = (said['error'] as { code?: string } | undefined)?.code
    t.equal(code ?? status, expected, `${line} ${JSON.stringify(body)?.slice(0, 60)}`)
  }
})
