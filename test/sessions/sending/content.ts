import { isDeepStrictEqual } from 'node:util'
import t from 'tap'
import {
  imageTypeIn,
  readParts,
  readTextParts,
  readToolCalls,
} from '../../../src/sessions/sending/content.ts'

const png = 'data:image/png;base64,'
const image = (url: unknown, more: object = {}) => ({
  type: 'image_url',
  image_url: { url, ...more },
})
const parts = (value: unknown) =>
  readParts(value, { at: 'content', attachments: 2, takesFiles: false })
const call = (more: object = {}) => ({
  id: 'call_1',
  type: 'function',
  function: { name: 'f', arguments: '{}' },
  ...more,
})

const invalid = (param: string) => ({ code: 'invalid_parameter', param })
const missing = (param: string) => ({ code: 'missing_parameter', param })
const unknown = (param: string) => ({ code: 'unknown_parameter', param })
const unsupported = (param: string) => ({ code: 'unsupported_attachment', param })

void t.test('text and images are accepted as they are', async (t) => {
  t.equal(parts('\0\ud800 報'), '\0\ud800 報')
  const list = [
    { type: 'text', text: 'Hi' },
    image(`${png}AAAA`),
    image(`${png}AA==`, { detail: 'low' }),
  ]
  t.strictSame(parts(list), list)
  t.strictSame(parts([image(`${png}AAAA`, { detail: null })]), [image(`${png}AAAA`)])
  for (const type of ['jpeg', 'jpg', 'gif', 'webp', 'PNG']) {
    t.ok(parts([image(`data:image/${type};base64,AAA=`)]))
  }
})

void t.test('empty or invalid content is refused with its path', async (t) => {
  t.throws(() => parts(undefined), missing('content'))
  t.throws(() => parts(null), missing('content'))
  for (const value of ['', [], {}, 7]) t.throws(() => parts(value), invalid('content'))
  for (const value of [null, 'Hi', []]) t.throws(() => parts([value]), invalid('content[0]'))
  t.throws(() => parts([{}]), missing('content[0].type'))
  t.throws(() => parts([{ type: 'video' }]), invalid('content[0].type'))
  t.throws(() => parts([{ type: 7 }]), invalid('content[0].type'))
  t.throws(() => parts([{ type: 'text' }]), missing('content[0].text'))
  for (const text of ['', 7, null]) {
    t.throws(() => parts([{ type: 'text', text }]), invalid('content[0].text'))
  }
  t.throws(() => parts([{ type: 'text', text: 'a', x: 1 }]), unknown('content[0].x'))
})

void t.test('without a store, a file is refused, and says what to do', async (t) => {
  const file = { type: 'file', file: { file_id: 'file_1' } }
  t.throws(() => parts([file]), { ...unsupported('content[0]'), message: /switched off/ })
  t.throws(() => parts([{ type: 'input_audio', input_audio: {} }]), unsupported('content[0]'))
})

const stored = (value: unknown) =>
  readParts(value, { at: 'content', attachments: 2, takesFiles: true })
const file = (fields: unknown) => ({ type: 'file', file: fields })

void t.test('with a store, a file is named by its id', async (t) => {
  const named = { type: 'file', file: { file_id: 'file_1' }, at: 'content[0].file.file_id' }
  t.strictSame(stored([file({ file_id: 'file_1' })]), [named])
  t.strictSame(stored([file({ file_id: 'file_1', filename: 'a.pdf' })]), [named], 'as it is shown')
  t.throws(() => stored([{ type: 'file' }]), missing('content[0].file'))
  t.throws(() => stored([file('file_1')]), invalid('content[0].file'))
  t.throws(() => stored([file({})]), missing('content[0].file.file_id'))
  for (const id of ['', 7, 'x'.repeat(257)]) {
    t.throws(() => stored([file({ file_id: id })]), invalid('content[0].file.file_id'))
  }
  t.throws(() => stored([file({ file_data: 'x' })]), invalid('content[0].file.file_data'))
  t.throws(() => stored([file({ file_id: 'a', x: 1 })]), unknown('content[0].file.x'))
  t.throws(() => stored([{ ...file({ file_id: 'a' }), x: 1 }]), unknown('content[0].x'))
  t.throws(() => stored([{ type: 'input_audio', input_audio: {} }]), unsupported('content[0]'))
  const three = [file({ file_id: 'a' }), image(gif), file({ file_id: 'b' })]
  t.throws(() => stored(three), invalid('content'))
})

const gif = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='

void t.test('with a store, an image is one by its bytes, and may be large', async (t) => {
  const of = (text: string) => png + Buffer.from(text, 'latin1').toString('base64')
  t.ok(stored([image(gif)]))
  t.ok(stored([image(gif.replace('gif', 'png'))]), 'what it is called matters little')
  for (const text of ['<html><script>1</script>', '<svg xmlns="">', 'GIF', 'x'.repeat(100)]) {
    t.throws(() => stored([image(of(text))]), invalid('content[0].image_url.url'), text)
  }
  t.ok(stored([image(of('\x89PNG\r\n\x1a\n' + 'x'.repeat(2 * 1024 * 1024)))]))
  t.throws(() => stored([image('http://example.com/a.png')]), invalid('content[0].image_url.url'))
  t.equal(imageTypeIn(gif.replace('gif', 'png')), 'image/gif')
})

void t.test('four kinds of images are known by their first bytes, and nothing else', async (t) => {
  const typeOf = (text: string) => imageTypeIn(png + Buffer.from(text, 'latin1').toString('base64'))
  t.equal(typeOf('\x89PNG\r\n\x1a\n\0\0\0\r'), 'image/png')
  t.equal(typeOf('\xff\xd8\xff\xe0\0\x10JFIF'), 'image/jpeg')
  t.equal(typeOf('GIF89a\u0001'), 'image/gif')
  t.equal(typeOf('GIF87a\u0001'), 'image/gif')
  t.equal(typeOf('RIFF\n\n\n\nWEBPVP8 '), 'image/webp')
  const others = ['', '<svg onload=alert(1)>', ' GIF89a', 'GIF90a', 'RIFF1234WAVE', '\x89PN']
  for (const text of others) t.equal(typeOf(text), undefined, text)
})

void t.test('an address is never fetched, and only four kinds of images are taken', async (t) => {
  const at = 'content[0].image_url.url'
  const urls = [
    'http://example.com/a.png',
    'https://user@example.com/a.png',
    'https://Example.com/a.png',
    'http://169.254.169.254/',
    'data:image/svg+xml;base64,AAAA',
    'data:image/png,AAAA',
    `${png}`,
    `${png}AAA`,
    `${png}A===`,
    `${png}AA=A`,
    `${png}AA A`,
    `${png}AA-_`,
    `${png}AAAA\n`,
    // Letters whose low byte is a digit of base64.
    `${png}AAA\u0141`,
    `${png}AAA\u00e9`,
    `${png}AAA=AAAA`,
    `${png}====`,
    7,
    null,
  ]
  for (const url of urls) t.throws(() => parts([image(url)]), invalid(at), String(url))
  t.throws(() => parts([{ type: 'image_url', image_url: {} }]), missing(at))
  t.throws(() => parts([{ type: 'image_url' }]), missing('content[0].image_url'))
  t.throws(
    () => parts([{ type: 'image_url', image_url: `${png}AAAA` }]),
    invalid('content[0].image_url'),
  )
  t.throws(() => parts([image(`${png}AAAA`, { x: 1 })]), unknown('content[0].image_url.x'))
  t.throws(() => parts([{ ...image(`${png}AAAA`), x: 1 }]), unknown('content[0].x'))
  t.throws(
    () => parts([image(`${png}AAAA`, { detail: 7 })]),
    invalid('content[0].image_url.detail'),
  )
})

void t.test('without a store, an image of 1 MiB is taken, one of a byte more is not', async (t) => {
  const ofBytes = (bytes: number) => png + Buffer.alloc(bytes, 7).toString('base64')
  const most = 1024 * 1024
  t.ok(parts([image(ofBytes(most))]))
  const tooLarge = { code: 'body_too_large', param: 'content[0].image_url.url' }
  t.throws(() => parts([image(ofBytes(most + 1))]), tooLarge)
})

void t.test('20 MiB of base64 are taken whole, and refused for one digit', async (t) => {
  const gif = Buffer.alloc(15 * 2 ** 20, 7)
  gif.write('GIF89a')
  const digits = gif.toString('base64')
  const whole = [image(`data:image/gif;base64,${digits}`)]
  t.ok(isDeepStrictEqual(stored(whole), whole))
  const middle = digits.length / 2
  const broken = `${digits.slice(0, middle)}*${digits.slice(middle + 1)}`
  t.throws(
    () => stored([image(`data:image/gif;base64,${broken}`)]),
    invalid('content[0].image_url.url'),
  )
})

void t.test('a message has only so many attachments', async (t) => {
  const one = image(`${png}AAAA`)
  t.ok(parts([one, one]))
  t.throws(() => parts([one, one, one]), invalid('content'))
})

void t.test('who can only say text sends no image; a tool may say nothing', async (t) => {
  t.equal(readTextParts('', 'content'), '')
  t.strictSame(readTextParts([{ type: 'text', text: 'a' }], 'c'), [{ type: 'text', text: 'a' }])
  t.throws(() => readTextParts([image(`${png}AAAA`)], 'c'), invalid('c[0].type'))
  t.throws(() => readTextParts(undefined, 'c'), missing('c'))
  for (const value of [[], 7, {}]) t.throws(() => readTextParts(value, 'c'), invalid('c'))
})

void t.test('tool calls are accepted as they are, and refused with their path', async (t) => {
  t.strictSame(readToolCalls([call({ index: 0 })], 'c'), [call()])
  t.strictSame(readToolCalls([call(), call({ id: 'call_2' })], 'c'), [
    call(),
    call({ id: 'call_2' }),
  ])
  for (const value of [[], {}, 'x', [call(), call()], Array(129).fill(call())]) {
    t.throws(() => readToolCalls(value, 'c'), invalid('c'))
  }
  t.throws(() => readToolCalls([null], 'c'), invalid('c[0]'))
  t.throws(() => readToolCalls([call({ type: 'custom' })], 'c'), invalid('c[0].type'))
  t.throws(() => readToolCalls([call({ id: undefined })], 'c'), missing('c[0].id'))
  for (const id of ['', 7, 'x'.repeat(257)]) {
    t.throws(() => readToolCalls([call({ id })], 'c'), invalid('c[0].id'))
  }
  t.throws(() => readToolCalls([call({ x: 1 })], 'c'), unknown('c[0].x'))
  const broken: readonly (readonly [unknown, { code: string; param: string }])[] = [
    [undefined, missing('c[0].function')],
    ['f', invalid('c[0].function')],
    [{ arguments: '' }, missing('c[0].function.name')],
    [{ name: 'f' }, missing('c[0].function.arguments')],
    [{ name: 'f', arguments: {} }, invalid('c[0].function.arguments')],
    [{ name: 'f', arguments: '', x: 1 }, unknown('c[0].function.x')],
  ]
  for (const [value, error] of broken) {
    t.throws(() => readToolCalls([call({ function: value })], 'c'), error)
  }
})
