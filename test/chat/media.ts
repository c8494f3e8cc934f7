import t from 'tap'
import { readMedia } from '../../src/chat/media.ts'
import type { RemoteAddress, Unlisted } from '../../src/chat/media.ts'
import { scanJson } from '../../src/http/json/scan.ts'

const png = 'data:image/png;base64,iVBORw0KGgo='
const remote = 'https://example.com/a.png'

function read(name: string, value: unknown) {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  const scan = scanJson(Buffer.from(`{"${name}":${text}}`), new Set([name]))
  const member = scan.members.get(name)
  if (!member) throw new Error('no member')
  const unlisted: Unlisted[] = []
  const addresses: RemoteAddress[] = []
  readMedia(name, { scan, member, unlisted, addresses })
  return { unlisted, addresses }
}

const said = (...content: unknown[]) => [{ role: 'user', content }]
const refused = { code: 'invalid_parameter' }

/** Each way in which a message can name media, with an address in it. */
const ways: readonly ((url: string) => unknown)[] = [
  (url) => said({ type: 'image_url', image_url: { url } }),
  (url) => said({ type: 'image_url', image_url: url }),
  (url) => said({ type: 'text', text: 'x', image_url: { url } }),
  (url) => said({ type: 'video_url', video_url: { url } }),
  (url) => said({ type: 'audio_url', audio_url: { url } }),
  (url) => said({ type: 'input_image', image_url: url }),
  (url) => said({ type: 'image', image: url }),
  (url) => said({ type: 'video', video: [png, url] }),
  (url) => said({ type: 'input_audio', input_audio: { data: url, format: 'wav' } }),
  (url) => said({ type: 'file', file: { file_data: url } }),
  (url) => said({ type: 'file', file: { file_url: url } }),
  (url) => said({ type: 'input_file', file_url: url }),
  (url) => said({ type: 'image_url', image_url: { url: png, source: { fileUri: url } } }),
  (url) => said({ type: 'strange', strange: [{ deep: { image_url: url } }] }),
  (url) => [{ role: 'user', content: { type: 'image_url', image_url: { url } } }],
  (url) => [{ role: 'user', content: 'Hi', images: [url] }],
  (url) => [{ role: 'user', content: 'Hi', image: { path: url } }],
]

t.test('only data URLs and sound https addresses pass, wherever they stand', async (t) => {
  const none = [
    'http://169.254.169.254/latest',
    'file:///etc/passwd',
    '//host/a',
    '/a.png',
    ' ',
    'HTTP://h/a',
  ]
  for (const way of ways) {
    for (const url of none)
      t.throws(() => read('messages', way(url)), refused, JSON.stringify(way(url)))
    t.strictSame(read('messages', way(png)).addresses, [])
    t.match(read('messages', way(remote)).addresses, [{ host: 'example.com' }])
  }
  t.equal(
    read('messages', ways[0]?.(remote)).addresses[0]?.param,
    'messages[0].content[0].image_url.url',
  )
})

t.test('bytes without a data URL are accepted where they belong', async (t) => {
  const bytes = `//uQZ${'A'.repeat(60)}`
  read('messages', said({ type: 'input_audio', input_audio: { data: bytes, format: 'mp3' } }))
  read('messages', said({ type: 'file', file: { file_data: bytes, filename: 'a.pdf' } }))
  read('messages', [{ role: 'user', content: 'x', images: [bytes] }])
  t.throws(() => read('messages', said({ type: 'image_url', image_url: { url: bytes } })), refused)
})

t.test('messages of honest clients pass unchanged', async (t) => {
  const messages = [
    { role: 'system', content: 'You are http://kind' },
    { role: 'user', content: 'https://example.com and file:///etc', name: 'a' },
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        { id: 'a', type: 'function', function: { name: 'f', arguments: '{"url":"http://x"}' } },
      ],
      annotations: [{ type: 'url_citation', url_citation: { url: 'http://x', title: 't' } }],
      refusal: null,
    },
    { role: 'tool', tool_call_id: 'a', content: [{ type: 'text', text: 'http://x' }] },
    { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
    { role: 'user', content: [{ type: 'image_url', image_url: { url: png, detail: 'low' } }] },
    'nonsense',
    null,
  ]
  t.strictSame(read('messages', messages), { unlisted: [], addresses: [] })
  t.throws(() => read('messages', { role: 'user' }), refused)
})

t.test("media of others, or with a price, need the operator's permission", async (t) => {
  const names = (part: object) => read('messages', said(part)).unlisted.map(({ name }) => name)
  t.strictSame(names({ type: 'image_url', image_url: { url: png }, uuid: 'x' }), ['uuid'])
  t.strictSame(names({ type: 'image_url', image_url: { url: png, content_hash: 'x' } }), [
    'content_hash',
  ])
  t.strictSame(names({ type: 'file', file: { file_id: 'file-1' } }), ['file_id'])
  t.strictSame(names({ type: 'image_embeds', image_embeds: 'x' }), ['image_embeds', 'image_embeds'])
  t.strictSame(names({ type: 'text', text: 'x', cache_control: { type: 'ephemeral' } }), [
    'cache_control',
  ])
})

t.test('the backend reads exactly what was checked', async (t) => {
  const twice = [
    `[{"content":[{"type":"image_url","image_url":{"url":"${png}","url":"${png}"}}]}]`,
    `[{"content":[{"type":"text","type":"image_url","text":"x"}]}]`,
    `[{"content":"x","content":"y"}]`,
    `[{"content":"x","\\u0063ontent":"y"}]`,
  ]
  for (const text of twice) t.throws(() => read('messages', text), { code: 'invalid_json' }, text)
  const alike = [
    [{ role: 'user', Content: 'x' }],
    [{ role: 'user', content: 'x', Images: ['http://x'] }],
    said({ type: 'image_url', Image_Url: { url: 'http://x' } }),
    said({ type: 'image_url', image_url: { URL: 'http://x' } }),
    said({ Type: 'image_url', image_url: { url: png } }),
    said({ type: 'file', file: { File_ID: 'x' } }),
  ]
  for (const messages of alike) t.throws(() => read('messages', messages), { code: 'invalid_json' })
})

t.test('documents and inputs may have keys of their own, but no other addresses', async (t) => {
  for (const name of ['documents', 'input', 'query']) {
    const fine = [
      'http://x',
      { text: 'http://x', title: 'a', file: 'a.pdf' },
      { image: png },
      [1, 2],
    ]
    t.strictSame(read(name, fine), { unlisted: [], addresses: [] })
    for (const url of ['http://x/a', 'file:///a', 'a.png']) {
      for (const value of [
        [{ image: url }],
        [{ type: 'image_url', image_url: { url } }],
        { content: [{ type: 'video_url', video_url: url }] },
        [{ text: 'x', Image_URL: url }],
        [{ any: { src: url } }],
      ]) {
        t.throws(() => read(name, value), refused, JSON.stringify(value))
      }
    }
    t.equal(read(name, [{ image: remote }]).addresses.length, 1)
  }
})

t.test('a body with endless names is refused before it costs much', async (t) => {
  const many = (count: number, one: (i: number) => string) =>
    Array.from({ length: count }, (_, i) => one(i)).join(',')
  const texts: readonly [string, { code: string }][] = [
    [`[{"images":[${many(1025, () => `"${remote}"`)}]}]`, { code: 'invalid_parameter' }],
    [`[{"content":[{${many(4097, (i) => `"k${i}":1`)}}]}]`, { code: 'unknown_parameter' }],
  ]
  for (const [text, error] of texts) t.throws(() => read('messages', text), error)
  t.equal(
    read('messages', `[{"images":[${many(1024, () => `"${remote}"`)}]}]`).addresses.length,
    1024,
  )
})

t.test('a part of an unknown type is named only if its name is a word', async (t) => {
  t.equal(read('messages', said({ type: 'video2' })).unlisted[0]?.name, 'video2')
  for (const type of ['x'.repeat(65), 7, null, ['a'], {}]) {
    t.throws(() => read('messages', said({ type })), refused, JSON.stringify(type))
  }
})
