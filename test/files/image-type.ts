import t from 'tap'
import { imageTypeOf } from '../../src/files/image-type.ts'

const type = (hex: string) => imageTypeOf(Buffer.from(hex, 'hex'))

t.test('four kinds of images are known by their first bytes', async (t) => {
  t.equal(type('89504e470d0a1a0a0000000d'), 'image/png')
  t.equal(type('ffd8ffe000104a464946'), 'image/jpeg')
  t.equal(type(Buffer.from('GIF89a\u0001').toString('hex')), 'image/gif')
  t.equal(type(Buffer.from('GIF87a\u0001').toString('hex')), 'image/gif')
  t.equal(imageTypeOf(Buffer.from('RIFF\n\n\n\nWEBPVP8 ')), 'image/webp')
})

t.test('nothing else is an image, even if it looks similar', async (t) => {
  const others = [
    '',
    '<svg onload=alert(1)>',
    '<html>',
    ' GIF89a',
    'GIF90a',
    'RIFF1234WAVE',
    '\x89PN',
  ]
  for (const text of others) t.equal(imageTypeOf(Buffer.from(text, 'latin1')), undefined, text)
})
