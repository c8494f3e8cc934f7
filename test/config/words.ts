import t from 'tap'
import {
  backendUrl,
  cidr,
  forwardedHeader,
  headerName,
  headerValue,
  host,
  hostPort,
  mediaHost,
  modelId,
  parameterName,
  parseRedisUrl,
  port,
  redisUrl,
  timeZone,
} from '../../src/config/words.ts'

interface Checkable {
  safeParse(value: unknown): { readonly success: boolean }
}

const accepts = (t: Tap, schema: Checkable, good: readonly unknown[], bad: readonly unknown[]) => {
  for (const value of good) t.ok(schema.safeParse(value).success, `good: ${JSON.stringify(value)}`)
  for (const value of bad) t.notOk(schema.safeParse(value).success, `bad: ${JSON.stringify(value)}`)
}
type Tap = Pick<typeof t, 'ok' | 'notOk'>

t.test('ports and hosts', async (t) => {
  accepts(t, port(), [0, 80, 65_535], [-1, 65_536, 1.5, '80', null])
  accepts(t, host(), ['::1', 'localhost', '10.0.0.1'], ['[::1]', 'a b', 'http://x', ''])
  accepts(
    t,
    hostPort(),
    ['a:1', '[::1]:80', ':80', '80'],
    ['a', 'a:b', 'a:99999', '::1:80', '99999'],
  )
})

t.test('address ranges', async (t) => {
  const good = ['10.0.0.0/8', '10.0.0.1', '::/0', 'fd00::1/128']
  accepts(t, cidr(), good, [
    '10.0.0.0/33',
    '10.0.0.0/x',
    '::/129',
    '10.0.0/8',
    'x',
    '1.1.1.1/8/8',
    '1.1.1.1/',
    '',
  ])
})

t.test('time zones', async (t) => {
  const good = ['UTC', 'Europe/Berlin', 'America/Argentina/Ushuaia', 'Asia/Kolkata', 'Etc/GMT+5']
  accepts(t, timeZone(), good, ['', '+02:00', 'Mars/Olympus', 'Europe', 'local', ' UTC', 5, null])
  const message = (name: string) => timeZone().safeParse(name).error?.issues[0]?.message
  t.match(message('Europe/Berlim'), 'did you mean "Europe/Berlin"?')
  t.match(message('Utc0'), 'did you mean "UTC"?')
  t.match(message('+02:00'), 'write an IANA name, such as Europe/Berlin')
})

t.test('names of parameters, and hosts of media', async (t) => {
  const names = ['top_k', '*', '_x', 'speculative.n_max']
  accepts(t, parameterName(), names, ['', 'a b', '**', 'top*', '1a', 'x'.repeat(65), 5])
  const hosts = ['a.example', '*.a.example', 'a.example:8443', '10.0.0.1', '[::1]', '[::1]:8443']
  accepts(t, mediaHost(), hosts, [
    '*',
    '*.',
    'A.example',
    'https://a.example',
    'a.example/x',
    'a.example:443',
    'a.example:99999',
    'u@a.example',
    '*.[::1]',
    '10.1',
    '0x7f.0.0.1',
    '',
  ])
})

t.test('model ids are printable, without spaces, up to 200 characters', async (t) => {
  const good = ['gpt-4o', 'meta-llama/Llama-3.1', 'x'.repeat(200), 'modèle', '7', 'constructor']
  accepts(t, modelId(), good, [
    '',
    'a b',
    'a\tb',
    'a\0',
    '*',
    'x'.repeat(201),
    'a\u00a0b',
    '\u200b',
    7,
  ])
})

t.test('headers are valid, and none of those that the gateway sets', async (t) => {
  const own = [
    'Connection',
    'content-length',
    'HOST',
    'te',
    'Transfer-Encoding',
    'upgrade',
    'expect',
  ]
  accepts(t, headerName(), ['x-team', 'Authorization'], ['', 'a b', 'a:b', 'ä', ...own])
  accepts(t, headerValue(), ['', 'plain', 'é'], ['a\nb', 'a\r', 'a\0', '日本'])
  const kept = [
    'Authorization',
    'Cookie',
    'x-api-key',
    'X-Forwarded-For',
    'forwarded',
    'Accept-Encoding',
  ]
  accepts(t, forwardedHeader(), ['x-session', 'openai-beta'], [...kept, ...own])
})

t.test('backend URLs are http, without credentials', async (t) => {
  const good = ['http://127.0.0.1:8000/v1', 'https://x/v1?api-version=1', 'http://[::1]/v1']
  const bad = [
    'x',
    'localhost:80',
    'ftp://x',
    'http://u:p@x',
    'http://u@x',
    'http://x#y',
    'http://x /v1',
    '',
  ]
  accepts(t, backendUrl(), good, bad)
})

t.test('Redis URLs are taken apart', async (t) => {
  t.match(parseRedisUrl('redis://h'), { host: 'h', port: 6379, db: 0, secure: false })
  const full = { username: 'u', password: 'p@/', host: 'h', port: 1, db: 3, secure: true }
  t.match(parseRedisUrl('rediss://u:p%40%2F@h:1/3'), full)
  t.match(parseRedisUrl('redis://:100%@h'), { password: '100%' })
  t.match(parseRedisUrl('redis://[::1]:7000'), { host: '::1', port: 7000 })
  t.match(parseRedisUrl('unix:///run/redis.sock?db=2'), { path: '/run/redis.sock', db: 2 })
  const bad = [
    'h:6379',
    'http://h',
    'redis://',
    'redis://h/x',
    'redis://h/0/1',
    'unix://',
    'redis://h#1',
    6379,
  ]
  accepts(t, redisUrl(), ['redis://h'], bad)
})
