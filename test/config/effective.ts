import t from 'tap'
import { effectiveOf } from '../../src/config/effective.ts'
import { duration, secret, z } from '../../src/config/schema.ts'
import { backendUrl, healthPath, redisUrl } from '../../src/config/words.ts'

const mask = '********'

const schema = z.object({
  a: duration().prefault('5s'),
  key: secret().optional(),
  keys: z.record(z.string(), secret()).default({}),
  list: z.array(z.object({ token: secret().default(''), n: z.int().default(1) })).default([]),
  block: z
    .union([z.literal(false), z.object({ inner: secret().prefault('built-in') })])
    .prefault({}),
})

t.test('defaults are filled in, in the notation of the file', async (t) => {
  t.same(effectiveOf(schema, {}), { a: '5s', keys: {}, list: [], block: { inner: mask } })
  t.same(effectiveOf(schema, { list: [{}] }), {
    a: '5s',
    keys: {},
    list: [{ token: '', n: 1 }],
    block: { inner: mask },
  })
})

t.test('secrets are masked wherever they are', async (t) => {
  const value = { key: 's1', keys: { x: 's2' }, list: [{ token: 's3' }], block: { inner: 's4' } }
  t.notMatch(JSON.stringify(effectiveOf(schema, value)), /s\d/)
  t.match(effectiveOf(schema, { block: false }), { block: false })
})

t.test('URLs show no password, and of the query only the API version', async (t) => {
  t.equal(effectiveOf(redisUrl(), 'redis://u:secret@h/1'), `redis://u:${mask}@h/1`)
  t.equal(effectiveOf(redisUrl(), 'embedded'), 'embedded')
  const shown = effectiveOf(backendUrl(), 'https://x/v1?api-version=1&code=secret')
  t.equal(shown, `https://x/v1?api-version=1&code=${mask}`)
  t.equal(effectiveOf(healthPath(), '/models?key=secret'), `/models?key=${mask}`)
  t.equal(effectiveOf(healthPath(), '/health?secret'), `/health?${mask}=${mask}`)
  t.equal(effectiveOf(healthPath(), '/health'), '/health')
})
