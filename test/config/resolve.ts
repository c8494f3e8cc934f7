import { join } from 'node:path'
import t from 'tap'
import { gatewayKeys } from '../../src/config/keys.ts'
import { resolveConfig } from '../../src/config/resolve.ts'
import { z } from '../../src/config/schema.ts'

const plugin = { name: 'words', schema: z.strictObject({ list: z.array(z.string()).default([]) }) }

const resolved = (file: object) => {
  const all = new Map([['./words.ts', plugin]])
  const schema = gatewayKeys([...all].map(([name, { schema }]) => ({ name, schema })))
  const keys = schema.parse({ models: { demo: { targets: ['demo'] } }, data: '/data', ...file })
  return resolveConfig(keys, {
    file: 'gateway.yaml',
    pems: new Map([
      ['/c', 'CERT'],
      ['/k', 'KEY'],
    ]),
    plugins: all,
  })
}

t.test('missing keys have their defaults, in the units of the gateway', async (t) => {
  t.match(resolved({}), {
    listen: { host: '0.0.0.0', port: 8080, trustedProxies: [] },
    admin: { listen: { host: '127.0.0.1', port: 9090 }, token: '', hosts: [] },
    redis: { kind: 'embedded' },
    store: { disk: { path: join('/data', 'store') } },
    limits: { jsonApiBytes: 2 ** 20, heartbeatMs: 15_000, firstByteMs: 30_000 },
    shutdownDelayMs: 0,
    drainMs: 30_000,
  })
})

t.test('listeners: short forms and blocks mean the same', async (t) => {
  t.same(resolved({ listen: 1 }).listen, resolved({ listen: { port: 1 } }).listen)
  const tls = { cert: '/c', key: '/k' }
  t.match(resolved({ listen: { tls } }).listen, { tls: { cert: 'CERT', key: 'KEY' } })
  t.match(resolved({ admin: { listen: 1 } }).admin.listen, { host: '127.0.0.1', port: 1 })
  t.match(resolved({ admin: { listen: ':1' } }).admin.listen, { host: '0.0.0.0', port: 1 })
  t.match(resolved({ admin: { listen: { host: '::1' } } }).admin.listen, {
    host: '::1',
    port: 9090,
  })
})

t.test('Redis: TLS by its scheme or by its files, user and password from the block', async (t) => {
  t.match(resolved({ redis: 'redis://h' }).redis, { kind: 'single', host: 'h', tls: undefined })
  t.match(resolved({ redis: 'rediss://h' }).redis, { tls: {} })
  const redis = { url: 'redis://h', password: 'p', tls: { ca: '/c' } }
  t.match(resolved({ redis }).redis, { password: 'p', tls: { ca: 'CERT' } })
})

t.test("a target's breaker has the model's values where it sets none", async (t) => {
  const targets = ['demo', { demo: true, breaker: { failures: 2 } }]
  const m = { targets, breaker: { cool_down: '5s' } }
  const found = resolved({ models: { m } })
    .models.get('m')
    ?.targets.map(({ breaker }) => breaker)
  t.strictSame(found, [
    { failures: 5, coolDownMs: 5000 },
    { failures: 2, coolDownMs: 5000 },
  ])
})

t.test('Redis: a Cluster and Sentinels by their addresses', async (t) => {
  const login = { username: 'u', password: 'p' }
  t.same(resolved({ redis: { cluster: ['a:1', '[::1]:2'], ...login } }).redis, {
    kind: 'cluster',
    nodes: [
      { host: 'a', port: 1 },
      { host: '::1', port: 2 },
    ],
    ...login,
  })
  const sentinels = { sentinels: ['a:1'], name: 'main', tls: { ca: '/c' } }
  const own = { sentinel_username: 'u', sentinel_password: 's' }
  t.same(resolved({ redis: { ...sentinels, ...own } }).redis, {
    kind: 'sentinel',
    sentinels: [{ host: 'a', port: 1 }],
    name: 'main',
    db: 0,
    sentinelUsername: 'u',
    sentinelPassword: 's',
    tls: { ca: 'CERT' },
  })
})

t.test('targets: named by position, headers in lower case, an empty key is none', async (t) => {
  const targets = [
    'demo',
    { demo: true, weight: 2 },
    { url: 'http://x/v1', key: '', key_header: 'X-Key', headers: { 'X-Team': 'a' } },
    {
      url: 'https://x/v1',
      key: 'k',
      key_header: 'X-Key',
      ca: '/c',
      max_tokens_field: 'max_tokens',
    },
  ]
  const [first, second, third, fourth] =
    resolved({ models: { m: { targets } } }).models.get('m')?.targets ?? []
  t.same(first, {
    name: '1',
    url: 'demo',
    model: 'm',
    headers: {},
    priority: 1,
    weight: 1,
    breaker: { failures: 5, coolDownMs: 30_000 },
    includeUsage: true,
    continuousUsage: false,
    cacheSalt: false,
  })
  t.match(second, { name: '2', url: 'demo', weight: 2 })
  t.match(third, { headers: { 'x-team': 'a' }, key: undefined, keyHeader: undefined })
  t.match(fourth, { key: 'k', keyHeader: 'x-key', ca: 'CERT', maxTokensField: 'max_tokens' })
})

t.test('plans name models by id, also if the file has an alias', async (t) => {
  const models = { m: { targets: ['demo'], aliases: ['alias'] } }
  const { plans } = resolved({ models, plans: { p: { models: ['alias', '*'] } } })
  t.same(plans.get('p')?.models, ['m', '*'])
})

t.test('plugins are found under their own name; switched off ones are absent', async (t) => {
  t.same(resolved({ plugins: { './words.ts': { list: ['a'] } } }).plugins.get('words'), {
    list: ['a'],
  })
  t.equal(resolved({ plugins: { './words.ts': false } }).plugins.size, 0)
})

t.test(
  'S3: defaults, and whether the bucket is in the path, without an endpoint and with one',
  async (t) => {
    const s3 = { bucket: 'files' }
    const bare = { bucket: 'files', prefix: '', region: 'us-east-1', pathStyle: false }
    const sizes = { partBytes: 8 * 2 ** 20, concurrency: 3 }
    t.same(resolved({ store: { s3 } }).store, { s3: { ...bare, ...sizes } })
    const endpoint = 'http://127.0.0.1:8333'
    t.match(resolved({ store: { s3: { ...s3, endpoint } } }).store, { s3: { pathStyle: true } })
    const keys = { access_key_id: 'AK', secret_access_key: 'SK' }
    t.match(resolved({ store: { s3: { ...s3, ...keys, path_style: true } } }).store, {
      s3: { pathStyle: true, credentials: { accessKeyId: 'AK', secretAccessKey: 'SK' } },
    })
    const none = resolved({ store: { s3: { ...s3, access_key_id: '', secret_access_key: '' } } })
    t.notOk('s3' in none.store && none.store.s3.credentials, 'empty ones are none')
  },
)
