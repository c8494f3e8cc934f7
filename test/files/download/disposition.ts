import t from 'tap'
import { contentDisposition } from '../../../src/files/download/disposition.ts'
import { seeded } from '../../fixtures/random.ts'

interface Parsed {
  readonly type: string
  readonly plain: string
  readonly extended: string
}

/** Follows the grammars of RFC 6266 and RFC 8187 strictly; throws on any deviation. */
function parse(header: string): Parsed {
  const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
  const quoted = '"((?:[ !\\x23-\\x5b\\x5d-\\x7e]|\\\\[ -~])*)"'
  const extended = "UTF-8''((?:%[0-9A-F]{2}|[A-Za-z0-9!#$&+.^_`|~-])*)"
  const whole = new RegExp(`^(${token}); filename=${quoted}; filename\\*=${extended}$`)
  const [, type, plain, encoded] = whole.exec(header) ?? []
  if (type === undefined || plain === undefined || encoded === undefined) throw new Error(header)
  const bytes = encoded.replace(/%(..)/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  )
  const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  return { type, plain, extended: utf8.decode(Buffer.from(bytes, 'latin1')) }
}

t.test('a name is sent in both forms', async (t) => {
  t.equal(
    contentDisposition('attachment', '报告.pdf'),
    `attachment; filename="__.pdf"; filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf`,
  )
  t.equal(
    contentDisposition('inline', 'a b.png'),
    `inline; filename="a b.png"; filename*=UTF-8''a%20b.png`,
  )
})

t.test('the plain form has nothing that clients read differently', async (t) => {
  for (const [name, plain] of [
    ['Résumé Ångström.txt', 'Resume Angstrom.txt'],
    ['a"b\\c/d%41.txt', 'a_b_c_d_41.txt'],
    ['a\r\nSet-Cookie: b=c', 'a__Set-Cookie: b=c'],
    ['\u{1f600}.png', '_.png'],
    ['한글.txt', '__.txt'],
    ['\u2100.txt', '_.txt'],
    ['a; filename=x', 'a_ filename=x'],
    ['', ''],
  ] as const) {
    t.equal(parse(contentDisposition('attachment', name)).plain, plain, JSON.stringify(name))
  }
})

t.test('every code unit of UTF-16 is transported, alone and between letters', async (t) => {
  for (let unit = 0; unit <= 0xffff; unit++) {
    const name = `a${String.fromCharCode(unit)}z`
    const { type, plain, extended } = parse(contentDisposition('attachment', name))
    const isCarried = type === 'attachment' && extended === name.toWellFormed()
    if (!isCarried || !/^a[ -~]*z$/.test(plain)) t.fail(unit.toString(16))
  }
})

t.test('names of any characters come back unchanged', async (t) => {
  const random = seeded(6266)
  const hostile = [...`"\\;%\0'*=\u202e`, '%22', '\r\n', '\ud800', '\udc00']
  const letter = () => {
    const kind = random(4)
    if (kind === 0) return hostile[random(hostile.length)] ?? ''
    if (kind === 1) return String.fromCodePoint(random(0x110000))
    return String.fromCodePoint(random(kind === 2 ? 0x80 : 0x3000))
  }
  for (let i = 0; i < 20_000; i++) {
    const name = Array.from({ length: random(12) }, letter).join('')
    const { extended } = parse(contentDisposition('inline', name))
    if (extended !== name.toWellFormed()) t.fail(JSON.stringify(name))
  }
})
