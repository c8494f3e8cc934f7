import t from 'tap'
import {
  fileKinds,
  inlineBytes,
  kindOf,
  overcounted,
  partOf,
  standIn,
  tokensOf,
} from '../../src/files/file-reference.ts'
import type { FileReference } from '../../src/files/file-reference.ts'
import { estimatePrompt } from '../../src/tokens/estimate.ts'
import { imageBytes } from '../fixtures/images.ts'
import { prices, promptOf } from '../fixtures/prompt.ts'

const file = (content_type: string, more: Partial<FileReference> = {}): FileReference => ({
  file_id: 'file_1',
  kind: kindOf(content_type),
  bytes: 3000,
  content_type,
  filename: 'a.b',
  ...more,
})

t.test('the kind follows from the type, without its parameters', async (t) => {
  for (const type of ['png', 'jpeg', 'gif', 'webp']) t.equal(kindOf(`image/${type}`), 'image')
  t.equal(kindOf('text/plain; charset=utf-8'), 'text')
  t.equal(kindOf('Text/Plain'), 'text')
  for (const type of ['mpeg', 'wav', 'x-wav']) t.equal(kindOf(`audio/${type}`), 'audio')
  for (const type of [
    'application/pdf',
    'image/svg+xml',
    'image/avif',
    'audio/ogg',
    'text/html',
    '',
  ]) {
    t.equal(kindOf(type), 'file', type)
  }
})

t.test('a backend gets each kind in the form that it accepts', async (t) => {
  const content = Buffer.from('\ufeffHi €')
  const base64 = content.toString('base64')
  t.strictSame(partOf(file('image/png'), content), {
    type: 'image_url',
    image_url: { url: `data:image/png;base64,${base64}` },
  })
  t.strictSame(partOf(file('image/gif', { detail: 'low' }), content), {
    type: 'image_url',
    image_url: { url: `data:image/gif;base64,${base64}`, detail: 'low' },
  })
  t.strictSame(partOf(file('text/plain; charset=utf-8'), content), {
    type: 'text',
    text: '[file: a.b]\nHi €',
  })
  t.strictSame(partOf(file('audio/mpeg'), content), {
    type: 'input_audio',
    input_audio: { data: base64, format: 'mp3' },
  })
  t.match(partOf(file('audio/x-wav'), content), { input_audio: { format: 'wav' } })
  t.strictSame(partOf(file('application/pdf'), content), {
    type: 'file',
    file: { filename: 'a.b', file_data: `data:application/pdf;base64,${base64}` },
  })
})

t.test('a file that cannot be shown is represented by its name', async (t) => {
  t.strictSame(standIn(file('image/png')), { type: 'text', text: '[image]' })
  t.strictSame(standIn(file('text/plain')), { type: 'text', text: '[file: a.b]' })
})

t.test('images, text and sound are estimated as high as the request', async (t) => {
  for (const bytesPerToken of [1, 2.5, 4]) {
    for (const type of ['image/png', 'text/plain', 'audio/wav']) {
      for (const bytes of [0, 1, 2, 3000, 1_000_000]) {
        const one = file(type, { bytes })
        const guess = (part: unknown) => {
          const prompt = promptOf({ messages: [{ role: 'user', content: [part] }] })
          return estimatePrompt(prompt, { bytesPerToken, imageTokens: 1500 }).tokens
        }
        const side = Math.floor(Math.sqrt(bytes * 4))
        const image = imageBytes('png', side, side, bytes)
        const content = type === 'image/png' ? image : Buffer.alloc(bytes, 'x')
        const whole = guess(partOf(one, content))
        const parts = guess(standIn(one)) + tokensOf(one, { bytesPerToken, imageTokens: 1500 })
        t.ok(parts >= whole && parts < whole + 81, `${type} ${bytes}: ${parts} ≥ ${whole}`)
      }
    }
  }
  t.equal(tokensOf(file('application/pdf'), prices), 332)
  t.equal(tokensOf(file('text/markdown'), prices), 32 + 1200)
  t.equal(tokensOf(file('application/json; charset=utf-8'), prices), 32 + 1200)
  t.equal(overcounted(file('application/pdf'), prices), 1600 - 332)
  t.equal(overcounted(file('image/png'), prices), 0)
})

t.test('the space that a file takes is known before it is read', async (t) => {
  for (const kind of fileKinds) {
    for (const bytes of [0, 1, 2, 3, 4, 1000]) {
      // The content that takes most space as text.
      const written = JSON.stringify(partOf(file('', { kind }), Buffer.alloc(bytes, '"\n\\')))
      const around = JSON.stringify(partOf(file('', { kind }), Buffer.alloc(0)))
      t.equal(inlineBytes({ kind, bytes }), written.length - around.length, `${kind} ${bytes}`)
    }
  }
})
