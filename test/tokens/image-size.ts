// Pixels by the first bytes of an image, whatever its name; undefined for anything else.

import t from 'tap'
import { imagePixels, newBudget } from '../../src/tokens/image-size.ts'
import { formats, imageBytes } from '../fixtures/images.ts'

const pixels = (image: Buffer): number | undefined => {
  const text = Buffer.from(`data:x,${image.toString('base64')}`)
  return imagePixels(text, { from: 7, to: text.length, budget: newBudget() })
}

for (const format of formats) {
  t.test(`${format}: any size`, async (t) => {
    for (const [wide, high] of [
      [1, 1],
      [640, 480],
      [8000, 6000],
      [16_000, 3],
    ] as const) {
      t.equal(pixels(imageBytes(format, wide, high)), wide * high)
    }
  })
  t.test(`${format}: cut off anywhere, it has no size or the same one`, async (t) => {
    const whole = imageBytes(format, 640, 480)
    for (let length = 0; length < 64; length++) {
      t.ok([undefined, 640 * 480].includes(pixels(whole.subarray(0, length))), `${length}`)
    }
  })
}

t.test('a GIF is as large as its first frame, if that is larger than its screen', async (t) => {
  const gif = imageBytes('gif', 10, 10)
  gif.writeUInt16LE(3000, 18)
  gif.writeUInt16LE(2000, 20)
  t.equal(pixels(gif), 6_000_000)
})

t.test(
  'a PNG is as large as any header before its pixels says: some decoders take the last',
  (t) => {
    const chunk = (type: string, data: Buffer) => {
      const length = Buffer.alloc(4)
      length.writeUInt32BE(data.length)
      return Buffer.concat([length, Buffer.from(type), data, Buffer.alloc(4)])
    }
    const header = (side: number) => chunk('IHDR', imageBytes('png', side, side).subarray(16, 29))
    const text = chunk('tEXt', header(1).subarray(8, 21))
    const png = (...chunks: Buffer[]) =>
      pixels(Buffer.concat([imageBytes('png', 1, 1).subarray(0, 8), ...chunks]))
    const data = chunk('IDAT', Buffer.alloc(9))
    t.equal(png(text, header(8000), data), 64_000_000)
    t.equal(png(header(1), text, header(8000), data), 64_000_000)
    t.equal(png(header(30), data, header(8000)), 900)
    t.equal(png(...Array<Buffer>(100).fill(text), header(8000), data), undefined)
    t.equal(png(header(1), chunk('tEXt', Buffer.alloc(9)).subarray(0, 12)), undefined)
    t.end()
  },
)

t.test('the other two forms of WebP', async (t) => {
  const lossy = imageBytes('webp', 1, 1)
  lossy.write('VP8 ', 12)
  lossy.writeUInt16LE(0x4000 | 800, 26)
  lossy.writeUInt16LE(600, 28)
  t.equal(pixels(lossy), 480_000)
  const lossless = imageBytes('webp', 1, 1)
  lossless.write('VP8L', 12)
  lossless.writeUInt32LE(799 | (599 << 14), 21)
  t.equal(pixels(lossless), 480_000)
})

t.test('other content has no pixels', async (t) => {
  for (const text of ['', 'x', 'BM', 'RIFF0000WAVE', '\xff\xd8\xff\xe0', 'GIF89a']) {
    t.equal(pixels(Buffer.from(text, 'latin1')), undefined, text)
  }
  const endless = Buffer.alloc(10_000, 'ffe00002', 'hex')
  t.equal(pixels(Buffer.concat([Buffer.from('ffd8', 'hex'), endless])), undefined)
})

const whole = (text: Buffer) => imagePixels(text, { from: 0, to: text.length, budget: newBudget() })

t.test('what decoders skip within base64 does not put a false size in its place', (t) => {
  // Who counts four skipped characters as three bytes looks for a frame at the end of the segment before it.
  const segment = Buffer.from(`ffe0001d${'00'.repeat(24)}ffc000`, 'hex')
  const frame = Buffer.from('ffc0000b081f401f40010111000000000000', 'hex')
  const image = Buffer.concat([Buffer.from('ffd8', 'hex'), segment, frame]).toString('base64')
  for (const skipped of ['!!!!', '\\n\\n', '====', '\n\n\n\n']) {
    const text = Buffer.from(image.slice(0, 16) + skipped + image.slice(16))
    t.equal(whole(text), undefined, JSON.stringify(skipped))
  }
  t.equal(whole(Buffer.from(image)), 8000 * 8000)
  t.end()
})

t.test('of all images of a body only so much is read', (t) => {
  const budget = newBudget()
  const { chars } = budget
  const chunk = Buffer.alloc(12 + 800_000)
  chunk.writeUInt32BE(chunk.length - 12)
  chunk.write('tEXt', 4)
  const small = imageBytes('png', 10, 10)
  const far = Buffer.concat([small.subarray(0, 8), chunk, small.subarray(8)]).toString('base64')
  const text = Buffer.from(far)
  const read = () => imagePixels(text, { from: 0, to: text.length, budget })
  t.same([read(), read(), read()], [100, undefined, undefined])
  t.equal(budget.chars, 0)
  t.ok(chars < 2 * far.length)
  t.end()
})

t.test('of small images only so many are read', (t) => {
  const gif = imageBytes('gif', 10, 10)
  const blocks = Buffer.alloc(3 * 40, '21f900', 'hex')
  const text = Buffer.from(
    Buffer.concat([gif.subarray(0, 13), blocks, gif.subarray(13)]).toString('base64'),
  )
  const budget = newBudget()
  let read = 0
  while (imagePixels(text, { from: 0, to: text.length, budget }) === 100) read++
  // Each takes a read for its head, for each block, for each block's end and for its frame.
  t.ok(read > 50 && read * 82 < 10_000, `${read}`)
  t.end()
})
