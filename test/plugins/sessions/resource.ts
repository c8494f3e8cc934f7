import t from 'tap'
import type { List as Page } from '../../../src/http/page.ts'
import { newId } from '../../../src/ids.ts'
import { seeded } from '../../fixtures/random.ts'
import { addMessage } from '../../fixtures/sessions.ts'
import { codeIn, sessionsYaml, startSessions } from '../../fixtures/sessions-http.ts'

type List = Page<{ readonly id: string }>

const full = { title: 'a', model: 'm', instructions: 'Be brief.', metadata: { k: 'v' } }

t.test('a session is created, shown, changed and deleted', async (t) => {
  const { call } = await startSessions(t)
  const created = await call('POST ', full)
  t.equal(created.status, 201)
  const { id } = created.body as { id: string }
  t.equal(created.headers.get('location'), `/api/chat/sessions/${id}`)
  t.equal(created.headers.get('cache-control'), 'no-store')
  t.strictSame(Object.keys(created.body as object).toSorted(), [
    'active_message_id',
    'created_at',
    'id',
    'instructions',
    'message_count',
    'metadata',
    'model',
    'object',
    'title',
    'updated_at',
  ])
  t.match(await call(`GET /${id}`), { status: 200, body: created.body as object })
  const changed = await call(`PATCH /${id}`, { title: 'b', model: null, metadata: {} })
  t.match(changed, {
    status: 200,
    body: { id, title: 'b', model: null, instructions: 'Be brief.' },
  })
  t.strictSame((changed.body as typeof full).metadata, {})
  t.strictSame((await call(`PATCH /${id}`)).body, changed.body, 'nothing to change')
  const deleted = await call(`DELETE /${id}`)
  t.match(deleted, { status: 204, body: undefined })
  t.equal(deleted.headers.get('content-length'), null)
  for (const line of ['GET', 'PATCH', 'DELETE']) {
    t.equal(codeIn(await call(`${line} /${id}`)), 'session_not_found', line)
  }
})

t.test('a body may be empty, on both mounts', async (t) => {
  const { call, url, key } = await startSessions(t)
  t.match(await call('POST '), { status: 201, body: { title: null, model: null, metadata: {} } })
  const mounted = await fetch(`${url}/v1/api/chat/sessions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
  })
  t.equal(mounted.status, 201)
  const { id } = (await mounted.json()) as { id: string }
  t.match(await call(`GET /${id}`), { status: 200 })
})

t.test('each field has its limits, and each fault its code and field', async (t) => {
  const { call, make } = await startSessions(t)
  const { id } = await make(full)
  const pairs = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`k${i}`, 'v']))
  const most = { title: '🎉'.repeat(200), metadata: { ['k'.repeat(64)]: 'v'.repeat(512) } }
  t.match(await call('POST ', most), { status: 201, body: most })
  t.match(await call('POST ', { metadata: pairs(16) }), { status: 201 })
  t.match(await call('POST ', { title: null, metadata: null }), { status: 201 })
  const cases: readonly (readonly [unknown, string, string | null])[] = [
    [{ title: 'x'.repeat(201) }, 'invalid_parameter', 'title'],
    [{ title: 5 }, 'invalid_parameter', 'title'],
    ['{"title":"\\ud800"}', 'invalid_parameter', 'title'],
    [{ instructions: [] }, 'invalid_parameter', 'instructions'],
    [{ model: {} }, 'invalid_parameter', 'model'],
    [{ metadata: 'x' }, 'invalid_parameter', 'metadata'],
    [{ metadata: [] }, 'invalid_parameter', 'metadata'],
    [{ metadata: pairs(17) }, 'invalid_parameter', 'metadata'],
    [{ metadata: { k: 1 } }, 'invalid_parameter', 'metadata.k'],
    [{ metadata: { k: null } }, 'invalid_parameter', 'metadata.k'],
    [{ metadata: { k: 'v'.repeat(513) } }, 'invalid_parameter', 'metadata.k'],
    [{ metadata: { ['k'.repeat(65)]: 'v' } }, 'invalid_parameter', `metadata.${'k'.repeat(65)}`],
    [{ name: 'x' }, 'unknown_parameter', 'name'],
    [{ id: 'x' }, 'unknown_parameter', 'id'],
    ['{"title":"a","title":"b"}', 'invalid_json', null],
    ['{"Title":"a"}', 'invalid_json', null],
    ['{"title":', 'invalid_json', null],
    ['[]', 'invalid_json', null],
    ['null', 'invalid_json', null],
  ]
  for (const [body, code, param] of cases) {
    for (const line of ['POST ', `PATCH /${id}`]) {
      const name = `${line} ${JSON.stringify(body)?.slice(0, 60)}`
      t.match(await call(line, body), { status: 400, body: { error: { code, param } } }, name)
    }
  }
  t.match((await call(`GET /${id}`)).body, full)
})

t.test('a metadata key of any name is kept or refused, never lost', async (t) => {
  const { call } = await startSessions(t)
  for (const name of ['__proto__', 'constructor', '', 'a.b', ' ', '\u0000']) {
    const body = `{"metadata":{${JSON.stringify(name)}:"v"}}`
    const { status, body: answer } = await call('POST ', body)
    const kept = (answer as { metadata?: object }).metadata ?? {}
    t.ok(status === 400 || (status === 201 && Object.hasOwn(kept, name)), `${name}: ${status}`)
  }
})

t.test('a body over the limit of JSON on /api is refused', async (t) => {
  const { call } = await startSessions(t)
  const body = { title: 'x'.repeat(70_000) }
  t.match(await call('POST ', body), { status: 413, body: { error: { code: 'body_too_large' } } })
  t.match(await call('POST ', { title: 'x'.repeat(60_000) }), { status: 400 })
})

t.test('instructions have 32 KiB of UTF-8 at most, and lists come without them', async (t) => {
  const { call } = await startSessions(t)
  const instructions = 'ü'.repeat(16 * 1024)
  const made = await call('POST ', { instructions })
  t.match(made, { status: 201, body: { instructions } })
  const refused = {
    status: 400,
    body: { error: { code: 'invalid_parameter', param: 'instructions' } },
  }
  t.match(await call('POST ', { instructions: `${instructions}x` }), refused)
  const { id } = made.body as { id: string }
  t.match(await call(`PATCH /${id}`, { instructions: `${instructions}x` }), refused)
  t.match(await call(`GET /${id}`), { status: 200, body: { instructions } })
  const { data } = (await call('GET ')).body as List
  t.equal(data.length, 1)
  t.notOk(Object.hasOwn(Object(data[0]), 'instructions'))
})

t.test('a model must be there and allowed, and an alias is kept as its model', async (t) => {
  const { call, make, admin, accountId, account } = await startSessions(t)
  t.match(await make({ model: 'nick' }), { model: 'm' })
  const { id } = await make()
  const narrow = await admin('POST', `accounts/${accountId}/keys`, { models: ['m'] })
  const { key: as } = (await narrow.json()) as { key: string }
  const { key: cheap } = await account(0, { name: 'cheap', plan: 'cheap' })
  for (const line of ['POST ', `PATCH /${id}`]) {
    const none = { status: 404, body: { error: { code: 'model_not_found', param: 'model' } } }
    t.match(await call(line, { model: 'none' }), none)
    t.match(await call(line, { model: '' }), none)
    const denied = { status: 403, body: { error: { code: 'model_not_allowed', param: 'model' } } }
    t.match(await call(line, { model: 'dear' }, { as }), denied)
  }
  t.equal(codeIn(await call('POST ', { model: 'dear' }, { as: cheap })), 'model_not_allowed')
  t.match(await call('POST ', { model: 'nick' }, { as: cheap }), { status: 201 })
})

t.test('it requires a key with the scope sessions', async (t) => {
  const { call, admin, accountId, make } = await startSessions(t)
  const { id } = await make()
  const made = await admin('POST', `accounts/${accountId}/keys`, { scopes: ['chat', 'billing'] })
  const { key: as } = (await made.json()) as { key: string }
  for (const line of ['POST ', 'GET ', `GET /${id}`, `PATCH /${id}`, `DELETE /${id}`]) {
    t.equal(codeIn(await call(line, undefined, { as: '' })), 'missing_api_key', line)
    const denied = await call(line, undefined, { as })
    t.match([denied.status, codeIn(denied)], [403, 'insufficient_scope'], line)
  }
  t.match(await call(`GET /${id}`), { status: 200 })
})

t.test("somebody else's session is not found, and in no list", async (t) => {
  const { call, make, strangersKey: as } = await startSessions(t)
  const { id } = await make()
  const { body } = await call('POST ', undefined, { as })
  const { instructions: _, ...own } = body as typeof full
  for (const line of [`GET /${id}`, `PATCH /${id}`, `DELETE /${id}`]) {
    const denied = await call(line, undefined, { as })
    t.match([denied.status, codeIn(denied)], [404, 'session_not_found'], line)
  }
  t.match(await call(`PATCH /${id}`, { title: 'stolen' }, { as }), { status: 404 })
  t.match(await call(`GET /${id}`), { status: 200, body: { title: null } })
  const listed = async (query: string) =>
    ((await call(`GET ?${query}`, undefined, { as })).body as List).data
  t.same(await listed(`after=${id}`), [], 'as a cursor it is a place, and no more')
  t.same(await listed(`before=${id}`), [own])
  t.same(await listed(''), [own])
})

t.test('sessions are listed newest first, in pages both ways, past deleted cursors', async (t) => {
  const { call, make } = await startSessions(t)
  const ids: string[] = []
  for (let i = 0; i < 7; i++) ids.unshift((await make({ title: `${i}` })).id)
  const list = async (query: string) => (await call(`GET ?${query}`)).body as List
  const idsOf = ({ data }: List) => data.map(({ id }) => id)
  t.match(await list(''), { object: 'list', first_id: ids[0], last_id: ids[6], has_more: false })
  t.match((await list('')).data[0], { object: 'chat.session', title: '6' })
  const first = await list('limit=3')
  t.same(idsOf(first), ids.slice(0, 3))
  const second = await list(`limit=3&after=${first.last_id}`)
  t.same(idsOf(second), ids.slice(3, 6))
  t.equal(second.has_more, true)
  t.match(await list(`limit=3&after=${second.last_id}`), { first_id: ids[6], has_more: false })
  t.same(idsOf(await list(`limit=2&before=${second.first_id}`)), ids.slice(1, 3))
  await call(`DELETE /${ids[3]}`)
  t.same(idsOf(await list(`limit=2&after=${ids[3]}`)), ids.slice(4, 6))
  t.same(idsOf(await list(`limit=2&before=${ids[3]}`)), ids.slice(1, 3))
  t.same(idsOf(await list(`order=asc&limit=2&after=${ids[3]}`)), [ids[2], ids[1]])
  t.same(idsOf(await list(`order=asc&limit=2`)), [ids[6], ids[5]])
})

t.test('deleting a session deletes its messages', async (t) => {
  const { call, make, redis, ref, gateway } = await startSessions(t)
  t.ok(redis.socket)
  const { id: session } = await make()
  const { id } = await addMessage(gateway.redis.client, { ref, session })
  t.match(await call(`GET /${session}`), { body: { message_count: 1 } })
  t.match(await call(`DELETE /${session}`), { status: 204 })
  t.equal(codeIn(await call(`GET /${session}/messages/${id}`)), 'session_not_found')
  t.strictSame(await gateway.redis.client.keys(`*${id}*`), [])
})

t.test('one Idempotency-Key creates one session, on either mount', async (t) => {
  const { call, key, url } = await startSessions(t)
  const headers = { 'idempotency-key': 'one' }
  const tries = await Promise.all(
    Array.from({ length: 20 }, () => call('POST ', { title: 'a' }, { headers })),
  )
  for (const { status } of tries) t.ok(status === 201 || status === 409, String(status))
  const first = tries.find(({ status }) => status === 201)
  const again = await call('POST ', { title: 'a' }, { headers })
  t.match(again, { status: 201, body: first?.body as object })
  t.equal(again.headers.get('idempotent-replayed'), 'true')
  t.equal(again.headers.get('location'), first?.headers.get('location'))
  const mounted = await fetch(`${url}/v1/api/chat/sessions`, {
    method: 'POST',
    headers: { ...headers, authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: '{"title":"a"}',
  })
  t.strictSame(await mounted.json(), first?.body)
  t.equal(((await call('GET ')).body as List).data.length, 1)
  const reused = await call('POST ', { title: 'b' }, { headers })
  t.match([reused.status, codeIn(reused)], [422, 'idempotency_key_reused'])
})

t.test('a refusal under an Idempotency-Key is not kept', async (t) => {
  const { call } = await startSessions(t)
  const headers = { 'idempotency-key': 'one' }
  t.match(await call('POST ', { title: 5 }, { headers }), { status: 400 })
  t.match(await call('POST ', { title: 'a' }, { headers }), { status: 201 })
})

t.test('with Redis away nothing is found or created, and the answer is 503', async (t) => {
  const { call, make, redis } = await startSessions(t)
  const { id } = await make()
  await redis.kill()
  for (const line of ['POST ', 'GET ', `GET /${id}`, `DELETE /${id}`]) {
    const refused = await call(line)
    t.match([refused.status, codeIn(refused)], [503, 'ledger_unavailable'], line)
  }
})

t.test('sessions expire after the retention, and lists forget them', async (t) => {
  const yaml = `${sessionsYaml}\nplugins: { sessions: { retention: 1h } }`
  const { make, call, gateway, ref } = await startSessions(t, yaml)
  const { id } = await make()
  const key = `{${ref}}:session:${id}`
  t.ok((await gateway.redis.client.ttl(key)) > 3500)
  await gateway.redis.client.pexpire(key, 0)
  t.match((await call('GET ')).body, { data: [], has_more: false })
  t.equal(codeIn(await call(`GET /${id}`)), 'session_not_found')
})

const bits = [
  'sess_',
  'msg_',
  'f',
  '0',
  '%2F',
  '%00',
  '%ff',
  '..',
  '*',
  '{',
  '}',
  ':',
  '?',
  '%',
  '🎉',
]

t.test('ids, cursors and bodies of any bytes are 4xx, never 5xx', async (t) => {
  const seed = Date.now() % 1_000_000
  t.comment(`seed ${seed}`)
  const random = seeded(seed)
  const { call, make } = await startSessions(t)
  const { id } = await make(full)
  const some = () => Array.from({ length: 1 + random(6) }, () => bits[random(bits.length)]).join('')
  const values = ['1', '"x"', 'null', '[]', '{}', '{"k":"v"}', '{"k":{}}', '1e999', '"\\u0000"']
  const body = () => {
    const names = ['title', 'model', 'instructions', 'metadata', 'x', 'TITLE', '__proto__']
    const one = () => `"${names[random(7)]}":${values[random(values.length)]}`
    const text = `{${Array.from({ length: 1 + random(3) }, one).join(',')}}`
    return random(4) === 0 ? text.slice(0, random(text.length)) || '{' : text
  }
  const mutated = () => {
    const at = random(id.length)
    const text = id.slice(0, at) + (bits[random(bits.length)] ?? '') + id.slice(at + random(3))
    return text === id ? `${id}0` : text
  }
  for (let i = 0; i < 300; i++) {
    const which = encodeURI([some(), mutated(), newId('sess')][random(3)] ?? '').replace('?', '%3F')
    const lines = [`GET /${which}`, `PATCH /${which}`, `DELETE /${which}`, `GET ?after=${which}`]
    const line = [...lines, `GET ?before=${which}&limit=${some()}`, 'POST ', `PATCH /${id}`][
      random(7)
    ]
    const hasBody = line?.startsWith('P')
    const { status } = await call(line ?? '', hasBody ? body() : undefined)
    if (status >= 500) t.fail(`${line}: ${status}`)
  }
  t.match(await call(`GET /${id}`), { status: 200 })
})
