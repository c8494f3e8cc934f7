// Whether bytes are text, however they are cut into pieces.

import t from 'tap'
import { scanText } from '../../../src/files/upload/text-scan.ts'
import { seeded } from '../../fixtures/random.ts'

function isText(...pieces: readonly Buffer[]): boolean {
  const scan = scanText()
  for (const piece of pieces) scan.take(piece)
  return scan.isText()
}

const hex = (digits: string) => Buffer.from(digits.replaceAll(' ', ''), 'hex')

/** Scans byte by byte, and at once. */
function isTextBothWays(bytes: Buffer): boolean | string {
  const whole = isText(bytes)
  const single = isText(...[...bytes].map((byte) => Buffer.of(byte)))
  return whole === single ? whole : `whole ${whole}, in single bytes ${single}`
}

t.test('valid UTF-8 without controls is text', async (t) => {
  const texts = [
    '',
    'Hello\r\n\tworld\f\n',
    '\ufeffwith a byte order mark',
    'naïve résumé\u00a0« »',
    '报告，报告',
    '👩🏽‍💻\u{10ffff}',
    '<svg onload="alert(1)">',
    '\u07ff\u0800\ud7ff\ue000\uffff',
  ]
  for (const text of texts) t.equal(isTextBothWays(Buffer.from(text)), true, JSON.stringify(text))
})

t.test('everything else is not', async (t) => {
  const others = {
    NUL: '61 00',
    escape: '1b 5b 33 31 6d',
    'vertical tab': '0b',
    DEL: '7f',
    'a C1 control': 'c2 85',
    'the last C1 control': '61 c2 9f 61',
    'a lone continuation': '61 80 61',
    'an overlong slash': 'c0 af',
    'an overlong NUL': 'e0 80 80',
    'a surrogate': 'ed a0 80',
    'beyond Unicode': 'f4 90 80 80',
    'five bytes': 'f8 88 80 80 80',
    'a character cut by the end': 'e6 8a',
    'a character cut by the next': 'e6 8a 61',
    'UTF-16': 'ff fe 61 00',
    'Latin 1': '6e 61 ef 76 65',
    'the last byte': '61 62 63 ff',
  }
  for (const [name, bytes] of Object.entries(others)) {
    t.equal(isTextBothWays(hex(bytes)), false, name)
  }
})

t.test('bytes that are no text stay so', async (t) => {
  const scan = scanText()
  scan.take(hex('00'))
  t.notOk(scan.mayBeText)
  scan.take(Buffer.from('plain'))
  t.notOk(scan.isText())
})

t.test('a text cut anywhere, with one byte changed, is judged like the whole', async (t) => {
  const random = seeded(5)
  const text = Buffer.from('aé报😀\n\u00a0z'.repeat(8))
  let texts = 0
  for (let round = 0; round < 5000; round++) {
    const bytes = Buffer.from(text)
    if (random(2) === 0) bytes[random(bytes.length)] = random(256)
    const cuts = [random(bytes.length), random(bytes.length), random(bytes.length)].sort(
      (a, b) => a - b,
    )
    const pieces = [0, ...cuts].map((at, index) => bytes.subarray(at, cuts[index]))
    const whole = isText(bytes)
    if (whole) texts++
    if (isText(...pieces) !== whole) t.fail(`${bytes.toString('hex')} cut at ${cuts.join()}`)
  }
  t.ok(texts > 2000 && texts < 4900, `both were seen: ${texts} texts`)
})
