// Which types files get; above all, which they never get.

import t from 'tap'
import {
  inertType,
  TextScan,
  Sniffer,
  textType,
  unknownType,
} from '../../../src/files/upload/content-type.ts'
import { seeded } from '../../fixtures/random.ts'

async function typeOf(content: string | Buffer, pieceBytes = 65_536, allow = ['*/*']) {
  const sniffer = new Sniffer(allow)
  const bytes = Buffer.from(content)
  for (let at = 0; at < bytes.length; at += pieceBytes) {
    sniffer.take(bytes.subarray(at, at + pieceBytes))
    if (sniffer.isReady) await sniffer.refuseEarly()
  }
  return sniffer.end()
}

const hex = (digits: string, tail = '') =>
  Buffer.concat([Buffer.from(digits.replaceAll(' ', ''), 'hex'), Buffer.from(tail)])

const png = hex('89504e470d0a1a0a 0000000d49484452 00000001000000010806000000 1f15c489')
const pdf = Buffer.from('%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n', 'latin1')
const jpeg = hex('ffd8ffe000104a46494600010100000100010000')
const script = '<script>alert(document.domain)</script>'

t.test('text is text, whatever it looks like', async (t) => {
  const texts = [
    '',
    'plain',
    `<!doctype html><html>${script}`,
    `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`,
    '\ufeff{"json":true}',
    'a,b\r\n1,2\r\n',
    'import fs from "node:fs"',
    '%PDF-1.4 that has no binary in it',
    '%!PS-Adobe-3.0\n',
    '{\\rtf1 x}',
    'WEBVTT\n\n',
    'BEGIN:VCARD\n',
  ]
  for (const text of texts) {
    t.equal(await typeOf(text), textType, text)
    t.equal(await typeOf(text, 1), textType, `${text}, in single bytes`)
  }
})

t.test('the type of a binary file follows from its first bytes', async (t) => {
  const files: Readonly<Record<string, Buffer>> = {
    'image/png': png,
    'image/jpeg': jpeg,
    'image/gif': hex('474946383961 01000100 800000 ffffff 000000'),
    'application/pdf': pdf,
    'application/gzip': hex('1f8b0800 00000000 0003'),
    'audio/mpeg': hex('494433 03000000000000 fffb9000'),
    'application/x-7z-compressed': hex('377abcaf271c0004'),
    'video/mp4': hex('00000018 66747970 69736f6d 00000200 69736f6d69736f32'),
  }
  for (const [type, bytes] of Object.entries(files)) {
    t.equal(await typeOf(bytes), type)
    t.equal(await typeOf(bytes, 1), type, 'in single bytes')
    t.equal(await typeOf(Buffer.concat([bytes, Buffer.alloc(100_000)])), type, 'a large one')
  }
})

t.test('no type that a browser would run comes out, however it is wrapped', async (t) => {
  const xml = '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
  const files: Readonly<Record<string, Buffer>> = {
    'HTML with a NUL': Buffer.from(`<html>${script}\0`),
    'HTML in Latin 1': Buffer.from(`<html>\xe9${script}`, 'latin1'),
    'HTML in UTF-16': Buffer.from(`\ufeff<html>${script}`, 'utf16le'),
    'SVG with a NUL at the end': Buffer.from(`${xml}\0`),
    'SVG whose only bad byte comes late': hex(Buffer.from(xml.padEnd(9000)).toString('hex') + 'ff'),
    'SVG in UTF-16': Buffer.from(`\ufeff${xml}`, 'utf16le'),
    'XML with a byte order mark and a control': Buffer.from(`\ufeff${xml}\u0001`),
    Flash: hex('435753 0a 00000000 789c'),
    'script with a control': Buffer.from('alert(1)//\u0008'),
  }
  for (const [name, bytes] of Object.entries(files)) {
    t.equal(await typeOf(bytes), unknownType, name)
  }
  t.equal(await typeOf(Buffer.concat([png, Buffer.from(script)])), 'image/png', 'a polyglot')
})

t.test('whatever file-type may detect in future, no type that runs comes out', async (t) => {
  const active = [
    'text/html',
    'text/javascript',
    'text/xml',
    'image/svg+xml',
    'application/xhtml+xml',
    'application/xml',
    'application/rss+xml',
    'application/javascript',
    'application/x-javascript',
    'application/ecmascript',
    'application/x-shockwave-flash',
    'multipart/related',
    'message/rfc822',
    'IMAGE/SVG+XML; charset=utf-8',
    'nonsense',
    '',
  ]
  for (const type of active) t.equal(inertType(type), unknownType, type)
  t.equal(inertType('audio/ogg; codecs=opus'), 'audio/ogg')
  const office = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document'
  t.equal(inertType(office), office)
})

t.test('a forbidden type is refused by its content, early if it is known early', async (t) => {
  const refused = { code: 'unsupported_media_type', status: 415, param: 'file' }
  await t.resolves(typeOf(png, 65_536, ['image/*']))
  await t.resolves(typeOf(png, 65_536, ['image/png']))
  await t.resolves(typeOf('text', 65_536, ['text/plain']))
  await t.rejects(typeOf('text', 65_536, ['image/*']), {
    ...refused,
    message: /text\/plain.*Accepted: image\/\*/,
  })
  await t.rejects(typeOf(pdf, 65_536, ['image/*', 'text/plain']), {
    ...refused,
    message: /application\/pdf/,
  })
  await t.rejects(typeOf(png, 65_536, ['image/pn', 'ima/*', '']), refused)
  await t.rejects(typeOf(Buffer.of(0), 65_536, ['image/*']), refused)

  const early = async (bytes: Buffer, allow: readonly string[]) => {
    const sniffer = new Sniffer(allow)
    sniffer.take(bytes.subarray(0, 4099))
    t.notOk(sniffer.isReady)
    sniffer.take(bytes.subarray(4099, 4100))
    t.ok(sniffer.isReady)
    await sniffer.refuseEarly()
  }
  const large = Buffer.concat([png, Buffer.alloc(8000)])
  await t.rejects(early(large, ['text/plain']), refused)
  await t.rejects(early(Buffer.alloc(8000, 'a'), ['image/*']), refused)
  await t.resolves(early(Buffer.alloc(8000, 'a'), ['application/octet-stream']), 'it may turn')
  await t.resolves(early(large, ['image/png']))
})

t.test('no bytes make it throw or hang, or give an invalid type', async (t) => {
  const random = seeded(22)
  const heads = [
    png,
    pdf,
    jpeg,
    hex('504b0304'),
    hex('1f8b08'),
    hex('00000018 66747970'),
    hex('52494646'),
  ]
  for (let round = 0; round < 3000; round++) {
    const bytes = Buffer.from(Array.from({ length: random(600) }, () => random(256)))
    heads[random(heads.length + 3)]?.copy(bytes)
    const type = await typeOf(bytes)
    if (type !== textType && inertType(type) !== type) t.fail(`${type}: ${bytes.toString('hex')}`)
  }
})

function isText(...pieces: readonly Buffer[]): boolean {
  const scan = new TextScan()
  for (const piece of pieces) scan.take(piece)
  return scan.isText()
}

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
  const scan = new TextScan()
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
