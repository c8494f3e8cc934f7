import { mock } from 'node:test'
import t from 'tap'
import type { Test } from 'tap'
import { accountsAtOnce } from '../../../src/ledger/audit-account.ts'
import { keys } from '../../../src/redis/keys.ts'
import { refusal, startAdmin } from '../../fixtures/admin-listener.ts'
import type { AdminListener } from '../../fixtures/admin-listener.ts'
import { adminToken, send, startGateway } from '../../fixtures/gateway.ts'
import { until } from '../../fixtures/until.ts'

interface Line {
  readonly object?: string
  readonly [name: string]: unknown
}

async function linesOf(answer: Response): Promise<readonly Line[]> {
  const text = await answer.text()
  t.ok(text.endsWith('\n'))
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as Line)
}

const stream = async ({ url }: Pick<AdminListener, 'url'>, query = '') => {
  const answer = await send(`${url}/admin/audit?format=ndjson${query}`, { token: adminToken })
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'application/x-ndjson')
  t.equal(answer.headers.get('cache-control'), 'no-store')
  return linesOf(answer)
}

t.test('an audit reports what does not agree', async (t) => {
  const { call, accounts, link } = await startAdmin(t)
  const { body } = await call('POST accounts', { name: 'a' })
  const { ref } = await accounts.getAccount('a')
  await link.client.hset(keys.account(ref), 'granted', '5')
  const { body: report } = await call('GET audit')
  t.match(report, { object: 'audit', accounts: 1, entries: 0, difference_count: 2, late: 0 })
  t.match(report.differences, [{ account_id: body.id, what: 'granted', expected: 0, found: 5 }])
})

t.test('as lines: the progress, each difference, and the end', async (t) => {
  const admin = await startAdmin(t)
  const { call, accounts, link } = admin
  const ids: string[] = []
  for (const name of ['a', 'b', 'c']) ids.push((await call('POST accounts', { name })).body.id)
  const { ref } = await accounts.getAccount('b')
  await link.client.hset(keys.account(ref), 'granted', '5')
  const counts = { accounts: 3, entries: 0, difference_count: 2 }
  const difference = { object: 'audit.difference', ref, account_id: ids[1], found: 5 }
  const none = { accounts: 0, entries: 0, difference_count: 0 }
  t.strictSame(await stream(admin), [
    { object: 'audit.progress', ...none, total: 3, cursor: null },
    { ...difference, what: 'granted', expected: 0 },
    { ...difference, what: 'balance', expected: 0 },
    { object: 'audit.end', ...counts, late: 0 },
  ])
  t.match(await stream(admin, `&after=${ids[1]}`), [
    { object: 'audit.progress', total: 1, cursor: ids[1] },
    { object: 'audit.end', accounts: 1, difference_count: 0 },
  ])
  t.match(await stream(admin, '&account=b'), [
    { total: 1 },
    { what: 'granted' },
    {},
    { accounts: 1 },
  ])
  t.match((await call(`GET audit?after=${ids[2]}`)).body, { accounts: 0, differences: [] })
})

t.test('what it can not do is refused', async (t) => {
  const { call } = await startAdmin(t)
  const { body } = await call('POST accounts', { name: 'a' })
  for (const [query, param] of [
    ['format=csv', 'format'],
    ['after=a', 'after'],
    [`account=a&after=${body.id}`, 'after'],
    ['account=a&account=b', 'account'],
  ]) {
    const wanted = { status: 400, body: refusal('invalid_parameter', param) }
    t.match(await call(`GET audit?${query}`), wanted)
  }
  t.match(await call('GET audit?limit=5'), {
    status: 400,
    body: refusal('unknown_parameter', 'limit'),
  })
  t.match(await call('GET audit?account=nobody&format=ndjson'), { status: 404 })
})

/** A gateway with an account whose journal takes 40 pages, behind `before` others. `onPage` is called before each page is read. */
async function startLong(
  t: Test,
  onPage: (page: number) => Promise<unknown> | undefined,
  before = 0,
) {
  const started = await startGateway(t, { yaml: 'models: { demo: { targets: [demo] } }\n' })
  const { client } = started.gateway.redis
  for (let i = 0; i < before; i++) await started.gateway.accounts.createAccount({ name: `b${i}` })
  const { ref } = await started.gateway.accounts.createAccount({ name: 'a' })
  const add = () => client.xadd(keys.journal(ref), '*', 'type', 'topup', 'amount', 0, 'balance', 0)
  await Promise.all(Array.from({ length: 2000 }, add))
  const read = client.xrange.bind(client) as (...args: unknown[]) => Promise<unknown>
  const pages = { read: 0 }
  const reading = async (...args: unknown[]) => {
    await onPage(++pages.read)
    return read(...args)
  }
  const { mock: mocked } = mock.method(client, 'xrange', reading as never)
  return { ...started, pages, restore: () => mocked.restore() }
}

const path = 'admin/audit?format=ndjson'

t.test('Redis away: an error behind the lines, or a status before the first one', async (t) => {
  const { adminUrl, redis } = await startLong(t, (page) => (page === 5 ? redis.kill() : undefined))
  const answer = await send(`${adminUrl}/${path}`, { token: adminToken })
  const error = { code: 'ledger_unavailable' }
  t.match(await linesOf(answer), [
    { object: 'audit.progress', accounts: 0, entries: 0 },
    { object: 'audit.progress', accounts: 0, entries: 0, cursor: null },
    { error, request_id: answer.headers.get('x-request-id') },
  ])
  const refused = await send(`${adminUrl}/${path}`, { token: adminToken })
  t.equal(refused.status, 503)
  t.match(await refused.json(), { error })
})

t.test('broken off in a long journal: the entries at a cursor are those up to it', async (t) => {
  const isTold = Promise.withResolvers<void>()
  const onPage = (page: number) =>
    page === 5 ? isTold.promise.then(() => redis.kill()) : undefined
  const { adminUrl, redis } = await startLong(t, onPage, accountsAtOnce)
  const answer = await send(`${adminUrl}/${path}`, { token: adminToken })
  const text: string[] = []
  for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text.push(piece)
    if (piece.includes('"cursor":"acct_')) isTold.resolve()
  }
  const lines = text.join('').trimEnd().split('\n')
  const found = lines.map((line): Line => JSON.parse(line)).filter(({ cursor }) => cursor !== null)
  t.match(found, [
    { accounts: accountsAtOnce, entries: 0 },
    { accounts: accountsAtOnce, entries: 210 },
    { accounts: accountsAtOnce, entries: 0 },
    { error: { code: 'ledger_unavailable' } },
  ])
})

t.test('a client that leaves in the middle of a journal ends the work', async (t) => {
  const leaving = new AbortController()
  const leave = async () => {
    leaving.abort()
    await until(() => log.some((line) => line.includes('"status":499')))
  }
  const { admin, adminUrl, log, pages, restore } = await startLong(t, (page) =>
    page === 5 ? leave() : undefined,
  )
  const { signal } = leaving
  await t.rejects(send(`${adminUrl}/${path}`, { token: adminToken, signal }).then(linesOf))
  restore()
  t.match(await (await admin('GET', 'audit')).json(), { accounts: 1, entries: 2000 })
  t.equal(pages.read, 5)
})
