// Images and sound are found where Chat Completions has them, and nowhere else.

import t from 'tap'
import { dataUrlPrice, findMedia, imagePrice } from '../../src/tokens/media.ts'
import { prices } from '../fixtures/prompt.ts'
import { imageUrl } from '../fixtures/images.ts'

const found = (messages: unknown) => {
  const body = Buffer.from(typeof messages === 'string' ? messages : JSON.stringify(messages))
  return findMedia(body, { from: 0, to: body.length, ...prices, isMessages: true })
}
const url = imageUrl('png', 2048, 2048)
const parts = (...content: unknown[]) => [{ role: 'user', content }]
const image = { type: 'image_url', image_url: { url } }

t.test('an image has its place and its price', async (t) => {
  const messages = parts({ type: 'text', text: 'x' }, image, image)
  const body = JSON.stringify(messages)
  const media = found(messages)
  t.match(media, [{ tokens: 6000, most: 96_000 }, { tokens: 6000 }])
  for (const { start, end } of media) t.equal(body.slice(start, end), url)
  t.match(found(body.replaceAll('/', '\\/')), [{ tokens: 6000 }, { tokens: 6000 }])
})

t.test('a document or a film in a data URL costs by its bytes', async (t) => {
  const data = `data:application/pdf;base64,${'A'.repeat(9973)}`
  for (const part of [
    { type: 'file', file: { file_data: data } },
    { type: 'video_url', video_url: { url: data } },
  ]) {
    t.match(found(parts(part)), [{ tokens: 4000 + 1, most: data.length }])
  }
  t.strictSame(found(parts({ type: 'file', file: { file_data: 'words' } })), [])
})

t.test('an address is not media: the estimate counts it wherever it is', async (t) => {
  t.strictSame(found(parts({ type: 'image_url', image_url: { url: 'https://x.test/a.png' } })), [])
})

t.test('an image that only its key reveals counts as an image and as text', async (t) => {
  for (const part of [{ image_url: { url } }, { image_url: url }, { type: 'x', image_url: url }]) {
    const [one] = found(parts(part))
    t.equal(one?.start, one?.end)
    t.equal(one?.tokens, 6000)
  }
})

t.test('words in a data URL count as text, too: some servers read them', async (t) => {
  const of = (value: unknown) => {
    const body = Buffer.from(JSON.stringify(value))
    return findMedia(body, { from: 0, to: body.length, ...prices, isMessages: false })
  }
  const words = 'words '.repeat(1000)
  for (const head of ['data:,', 'data:text/plain,', 'data:image/png;base64x,']) {
    const [one] = of([{ image: head + words }])
    t.equal(one?.start, one?.end, head)
    t.equal(one?.tokens, 96_000)
  }
  const [picture] = of([{ image: url }])
  t.equal(picture && picture.end - picture.start, url.length)
})

t.test('escapes do not hide an image', async (t) => {
  const written = JSON.stringify(parts(image))
  const text = written
    .replaceAll('image_url', 'im\\u0061ge\\u005furl')
    .replace('"content"', '"\\u0063ontent"')
  t.match(found(text), [{ tokens: 6000 }])
})

t.test('an image with other escapes than those of slashes counts as the largest', async (t) => {
  // Who takes four such letters for base64 finds a small frame at the end of the first segment.
  const segment = `ffe0001d${'00'.repeat(24)}ffc000`
  const frame = 'ffc0000b081f401f40010111000000000000'
  const bytes = Buffer.concat([Buffer.from(`ffd8${segment}${frame}`, 'hex'), Buffer.alloc(40_000)])
  const jpeg = `data:image/jpeg;base64,${bytes.toString('base64')}`
  const at = jpeg.indexOf(',') + 17
  const text = (escape: string) =>
    JSON.stringify(parts({ type: 'image_url', image_url: { url: jpeg } })).replace(
      jpeg,
      jpeg.slice(0, at) + escape + jpeg.slice(at),
    )
  t.match(found(text('\\n\\n\\n\\n')), [{ tokens: 96_000 }])
  t.match(found(text('')), [{ tokens: 91_553 }])
})

t.test('megabytes of escapes take about as long as their JSON', async (t) => {
  const escaped = `data:image\\/png;base64,${'\\/'.repeat(64 * 1024)}`
  const part = `{"type":"image_url","image_url":{"url":"${escaped}"}}`
  const text = `[{"content":[${Array.from({ length: 200 }, () => part).join(',')}]}]`
  const cpuOf = (work: () => unknown) => {
    const before = process.threadCpuUsage().user
    work()
    return process.threadCpuUsage().user - before
  }
  t.equal(found(text).length, 200)
  const ratio = cpuOf(() => found(text)) / cpuOf(() => JSON.parse(text))
  t.ok(ratio < 3, `${ratio}`)
})

t.test('at any other place it is text', async (t) => {
  for (const messages of [
    parts({ type: 'text', image_url: { url } }),
    parts({ type: 'text', text: url }),
    parts({ type: 'image_url', image_url: { detail: url } }),
    parts({ type: 'image_url', text: url, x: { url } }),
    parts([image]),
    parts({ x: image }),
    [{ role: 'user', tools: [image] }],
    [{ role: 'user', x: { content: [image] } }],
    [image],
    { content: [image] },
  ]) {
    t.strictSame(found(messages), [], JSON.stringify(messages).slice(0, 60))
  }
})

t.test('a key that comes twice counts with both its values', async (t) => {
  const twice = JSON.stringify(parts(image)).replace('{"url"', `{"url":"${url}","url"`)
  t.equal(found(twice).length, 2)
})

t.test('the price is proportional, from one megapixel to 64', async (t) => {
  t.equal(imagePrice(1, 1500), 1500)
  t.equal(imagePrice(1024 * 1024, 1500), 1500)
  t.equal(imagePrice(3 * 1024 * 1024, 1500), 4500)
  t.equal(imagePrice(1e12, 1500), 96_000)
  const unknown = (length: number) => dataUrlPrice('x'.repeat(length), 1500)
  t.equal(unknown(10), 1500)
  t.equal(unknown(3000), 96_000, 'what cannot be measured is the largest that has its bytes')
})
