// Forms as they come over a socket: every part in order, and every way in which one can end.

import type { IncomingMessage, ServerResponse } from 'node:http'
import { once } from 'node:events'
import { mock } from 'node:test'
import t from 'tap'
import type { Test } from 'tap'
import { asGatewayError, GatewayError } from '../../../src/errors.ts'
import { parseFormHeaders, readForm } from '../../../src/files/upload/form.ts'
import type { FormOptions } from '../../../src/files/upload/form.ts'
import { ClientLeft } from '../../../src/http/body.ts'
import { sendError } from '../../../src/http/reply.ts'
import { startListener } from '../../fixtures/http-listener.ts'
import { boundary, field, filePart, multipart } from '../../fixtures/multipart.ts'
import type { PartSpec } from '../../fixtures/multipart.ts'
import { rawClient } from '../../fixtures/raw-http.ts'
import { until } from '../../fixtures/until.ts'

type Seen = readonly (readonly [name: string, value: string, filename?: string])[]

interface Options extends Partial<FormOptions> {
  /** Called before each part is taken. */
  readonly hold?: (req: IncomingMessage) => Promise<void>
  /** Called for each error of the parser. */
  readonly onError?: () => void
}

/** Reads forms, and answers with their parts. */
async function startReader(t: Test, options: Options = {}) {
  const outcome = Promise.withResolvers<Seen | Error>()
  const onRequest = async (req: IncomingMessage, res: ServerResponse) => {
    try {
      const seen = await readParts(req, options)
      res.end(JSON.stringify(seen))
      outcome.resolve(seen)
    } catch (error) {
      sendError(res, { id: 'req_test', replyHeaders: {} }, asGatewayError(error))
      outcome.resolve(error instanceof Error ? error : new Error('no error'))
    }
  }
  const { port } = await startListener(t, onRequest)
  return { port, outcome: outcome.promise }
}

async function readParts(req: IncomingMessage, options: Options): Promise<Seen> {
  const parser = parseFormHeaders(req)
  if (options.onError) parser.on('error', options.onError)
  const form = readForm(req, parser, {
    maxBytes: 1024 * 1024,
    idleMs: 10_000,
    rateBytes: 0,
    tooLarge: () => new GatewayError('file_too_large'),
    stop: new AbortController(),
    ...options,
  })
  const seen: [string, string, string?][] = []
  for (;;) {
    await options.hold?.(req)
    const part = await form.next()
    if (!part) return seen
    if ('value' in part) seen.push([part.name, part.value])
    else seen.push([part.name, await textOf(part.content), part.filename])
  }
}

async function textOf(content: AsyncIterable<Buffer>): Promise<string> {
  let text = ''
  for await (const piece of content) text += piece.toString('latin1')
  return text
}

const head = (length: number | undefined, type = `multipart/form-data; boundary=${boundary}`) =>
  `POST / HTTP/1.1\r\nHost: x\r\nContent-Type: ${type}\r\n${
    length === undefined ? 'Transfer-Encoding: chunked' : `Content-Length: ${length}`
  }\r\n`

/** Sends one form in one piece, and returns what was read of it. */
async function read(t: Test, body: readonly PartSpec[] | Buffer, type?: string) {
  const { port, outcome } = await startReader(t)
  const client = await rawClient(t, port)
  const bytes = Buffer.isBuffer(body) ? body : multipart(body)
  client.send(`${head(bytes.length, type)}\r\n`, bytes)
  const seen = await outcome
  client.socket.destroy()
  return seen
}

const malformed = { code: 'malformed_request', status: 400 }

t.test('a form of thousands of broken parts is given up at the first', async (t) => {
  let errors = 0
  const { port, outcome } = await startReader(t, { onError: () => errors++ })
  const client = await rawClient(t, port)
  const bytes = Buffer.from(`--${boundary}\r\n\r\n\r\n`.repeat(1000))
  client.send(`${head(bytes.length)}\r\n`, bytes)
  t.match(await outcome, malformed)
  t.ok(errors <= 2, `${errors} errors: that of the part, and that of its end`)
  client.socket.destroy()
})

t.test('parts come in order, with unchanged bytes', async (t) => {
  const bytes = Buffer.from('\r\n--\r\n-\0\xff', 'latin1')
  const seen = await read(t, [
    field('a', '报告'),
    filePart(bytes, '/tmp/x.bin'),
    field('b', ''),
    { ...filePart('last'), name: 'c' },
  ])
  t.strictSame(seen, [
    ['a', '报告'],
    ['file', bytes.toString('latin1'), '/tmp/x.bin'],
    ['b', ''],
    ['c', 'last', 'a.bin'],
  ])
})

t.test('a name is read the same in every way that clients write it', async (t) => {
  const cases: readonly (readonly [line: string | Buffer, filename: string | undefined])[] = [
    ['filename="报告.pdf"', '报告.pdf'],
    ["filename*=UTF-8''%E6%8A%A5%E5%91%8A.pdf", '报告.pdf'],
    [`filename="fallback.pdf"; filename*=UTF-8''na%C3%AFve.pdf`, 'naïve.pdf'],
    ["filename*=ISO-8859-1''na%EFve.pdf; filename=x", 'naïve.pdf'],
    [Buffer.from('filename="na\xefve \x80.pdf"', 'latin1'), 'naïve €.pdf'],
    ['filename=plain.txt', 'plain.txt'],
    ['filename="a\\"b\\\\c.txt"', 'a"b\\c.txt'],
    ['filename="C:\\Users\\me.txt"', 'C:\\Users\\me.txt'],
    ['filename="a%22b.txt"', 'a%22b.txt'],
    ['filename="../../x"', '../../x'],
    ['FileName="case.txt"', 'case.txt'],
    ['filename=""', undefined],
  ]
  for (const [line, filename] of cases) {
    const body = Buffer.concat([
      Buffer.from(`--${boundary}\r\nContent-Type: application/octet-stream\r\n`),
      Buffer.from('content-disposition: form-data; name="file"; '),
      Buffer.from(line),
      Buffer.from(`\r\n\r\nx\r\n--${boundary}--\r\n`),
    ])
    t.strictSame(await read(t, body), [['file', 'x', filename]], String(line))
  }
})

t.test('a preamble, an epilogue, and line ends at the boundary do no harm', async (t) => {
  const body = multipart([field('a', 'b')])
  t.strictSame(await read(t, Buffer.concat([Buffer.from('hello\r\n'), body, Buffer.from('bye')])), [
    ['a', 'b'],
  ])
  t.strictSame(await read(t, body.subarray(0, -2)), [['a', 'b']], 'without a last line end')
  t.strictSame(await read(t, Buffer.from(`--${boundary}--\r\n`)), [], 'an empty form')
  const quoted = `multipart/form-data; charset=utf-8; boundary="a b'()+_,./:=?"`
  t.strictSame(await read(t, multipart([field('a', 'b')], "a b'()+_,./:=?"), quoted), [['a', 'b']])
})

t.test('a body that is no form is refused by its headers', async (t) => {
  const body = multipart([field('a', 'b')])
  const types: Readonly<Record<string, object>> = {
    'application/json': { code: 'unsupported_media_type', message: /multipart\/form-data/ },
    'multipart/mixed; boundary=x': { code: 'unsupported_media_type' },
    'multipart/form-datax; boundary=x': { code: 'unsupported_media_type' },
    'application/x-www-form-urlencoded': { code: 'unsupported_media_type' },
    '': { code: 'unsupported_media_type' },
    'multipart/form-data': { ...malformed, message: /boundary/ },
    'multipart/form-data; boundary=': malformed,
    'multipart/form-data; boundary=""': malformed,
    'multipart/form-data; boundary="open': malformed,
    [`multipart/form-data; boundary=${'x'.repeat(71)}`]: malformed,
    'multipart/form-data; boundary=a b': malformed,
  }
  for (const [type, error] of Object.entries(types)) t.match(await read(t, body, type), error, type)
  const longest = 'x'.repeat(70)
  const seen = await read(t, multipart([], longest), `multipart/form-data; boundary=${longest}`)
  t.strictSame(seen, [])
})

t.test('a body in a Content-Encoding is refused: it would be stored as it is', async (t) => {
  const { port, outcome } = await startReader(t)
  const client = await rawClient(t, port)
  client.send(`${head(1000)}Content-Encoding: gzip\r\n\r\n`)
  t.match(await outcome, { code: 'unsupported_media_type', message: /Content-Encoding/ })
})

t.test('broken forms are malformed, wherever they break', async (t) => {
  const whole = multipart([field('a', 'b'), filePart('content')])
  for (let end = 0; end < whole.length - 4; end++) {
    const seen = await read(t, whole.subarray(0, end))
    if (!(seen instanceof GatewayError) || seen.code !== 'malformed_request') {
      t.fail(`cut at ${end}: ${String(seen)}`)
    }
  }
  const disposition = 'Content-Disposition: form-data; name="a"'
  const parts: Readonly<Record<string, PartSpec>> = {
    'a header without a colon': { disposition: 'nonsense', value: '' },
    'a NUL in a header': { disposition: `${disposition}\0`, value: '' },
    'a bare line feed': { disposition: `${disposition}\nX: y`, value: '' },
    'a header of 20 KiB': { disposition, headers: [`X: ${'y'.repeat(20_000)}`], value: '' },
    'a part without a name': { disposition: 'Content-Disposition: form-data', value: 'x' },
    'a file without a name': { filename: 'x', value: 'x' },
    'a charset that nobody knows': { name: 'a', type: 'text/plain; charset=klingon', value: 'x' },
    base64: { ...filePart('eA=='), headers: ['Content-Transfer-Encoding: base64'] },
  }
  for (const [name, part] of Object.entries(parts)) t.match(await read(t, [part]), malformed, name)
})

t.test('a field is text of at most 4 KiB', async (t) => {
  t.strictSame(await read(t, [field('a', 'x'.repeat(4095))]), [['a', 'x'.repeat(4095)]])
  t.match(await read(t, [field('a', 'x'.repeat(4096))]), { code: 'invalid_parameter', param: 'a' })
  const latin = { name: 'a', type: 'text/plain; charset=iso-8859-1', value: Buffer.of(0xe9) }
  t.strictSame(await read(t, [latin]), [['a', 'é']])
})

t.test('bytes that wait for a busy reader are limited', async (t) => {
  const held = Promise.withResolvers<void>()
  const stop = new AbortController()
  const { port, outcome } = await startReader(t, { hold: () => held.promise, stop })
  const client = await rawClient(t, port)
  const body = multipart([filePart('x'), ...Array.from({ length: 1000 }, () => field('a', 'b'))])
  client.send(`${head(body.length)}\r\n`, body)
  await once(stop.signal, 'abort')
  held.resolve()
  t.match(await outcome, { ...malformed, message: /too many parts/ })
})

t.test('a boundary within the headers of a file is no whole form', async (t) => {
  const { port, outcome } = await startReader(t)
  const client = await rawClient(t, port)
  const cut = String(multipart([filePart('--x')])).replace('\r\n\r\n', `\r\n--${boundary}$&`)
  client.send(`${head(cut.length)}\r\n`, cut)
  t.match(await outcome, malformed)
})

t.test('a body without an end is cut off', async (t) => {
  const { port, outcome } = await startReader(t, { maxBytes: 10_000 })
  const client = await rawClient(t, port)
  const junk = 'x'.repeat(3000)
  client.send(`${head(undefined)}\r\n`)
  for (let count = 0; count < 4; count++) client.send(`bb8\r\n${junk}\r\n`)
  t.match(await outcome, { code: 'file_too_large' })
  client.send('0\r\n\r\n')
  t.equal((await client.answer()).status, 413, 'and the client is told')
})

t.test('a client that stops sending gets a reason', async (t) => {
  const { port, outcome } = await startReader(t, { idleMs: 30 })
  const client = await rawClient(t, port)
  client.send(`${head(1000)}\r\n`, multipart([filePart('begin')]).subarray(0, 150))
  t.match(await outcome, { code: 'request_timeout' })
  client.socket.end()
  t.equal((await client.answer()).status, 408)
})

const minute = { idleMs: 60_000, rateBytes: 100 }

/** Sends a file of 20,000 bytes at this many a minute, until it is told to stop. */
async function sendSlowly(t: Test, bytesAMinute: number) {
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const stop = new AbortController()
  const came = Promise.withResolvers<IncomingMessage>()
  const hold = async (req: IncomingMessage) => came.resolve(req)
  const { port, outcome } = await startReader(t, { ...minute, hold, stop })
  const client = await rawClient(t, port)
  const body = multipart([filePart('x'.repeat(20_000))])
  client.send(`${head(body.length)}\r\n`)
  const { socket } = await came.promise
  for (let at = 0; at < body.length && !stop.signal.aborted; at += bytesAMinute) {
    const before = socket.bytesRead
    client.send(body.subarray(at, at + bytesAMinute))
    await until(() => socket.bytesRead > before)
    if (at + bytesAMinute < body.length) mock.timers.tick(minute.idleMs)
  }
  return { client, outcome: await outcome }
}

t.test('a byte now and then does not keep a place: the rate has a minimum', async (t) => {
  const { client, outcome } = await sendSlowly(t, 5999)
  t.match(outcome, { code: 'request_timeout', message: /100 bytes a second/ })
  client.socket.end()
  t.equal((await client.answer()).status, 408)
})

t.test('an upload with enough speed may take any time', async (t) => {
  const { outcome } = await sendSlowly(t, 6000)
  t.match(outcome, [['file', /^x{20000}$/, 'a.bin']])
})

/** A reader that holds its client back until `held` resolves. */
function holding() {
  const came = Promise.withResolvers<IncomingMessage>()
  const held = Promise.withResolvers<void>()
  const hold = (req: IncomingMessage) => (came.resolve(req), held.promise)
  return { came, held, hold }
}

t.test('a client that the gateway holds back is not idle', async (t) => {
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const stop = new AbortController()
  const { came, held, hold } = holding()
  const { port, outcome } = await startReader(t, { idleMs: 300, hold, stop })
  const client = await rawClient(t, port)
  const body = multipart([filePart('x'.repeat(900_000))])
  client.send(`${head(body.length)}\r\n`, body)
  const req = await came.promise
  await until(() => req.isPaused())
  mock.timers.tick(300)
  t.equal(stop.signal.reason, undefined)
  held.resolve()
  t.match(await outcome, [['file', /^x+$/, 'a.bin']])
})

t.test('after it was held back, a client must keep the rate again', async (t) => {
  const nextTurn = () => new Promise(setImmediate)
  const stop = new AbortController()
  const { came, held, hold } = holding()
  mock.timers.enable({ apis: ['setInterval'] })
  t.teardown(() => mock.timers.reset())
  const { port } = await startReader(t, { idleMs: 30_000, rateBytes: 1000, hold, stop })
  const client = await rawClient(t, port)
  const body = multipart([filePart('x'.repeat(900_000))])
  client.send(`${head(body.length)}\r\n`, body.subarray(0, -1000))
  const req = await came.promise
  while (!req.isPaused()) await nextTurn()
  mock.timers.tick(30_000)
  held.resolve()
  const all = body.length - 1000
  while (req.socket.bytesRead < all || req.isPaused()) await nextTurn()
  mock.timers.tick(30_000)
  t.equal(stop.signal.reason, undefined, 'it was held back in this time')
  mock.timers.tick(30_000)
  t.match(stop.signal.reason, { code: 'request_timeout', message: /1000 bytes a second/ })
})

t.test('a client that leaves is ClientLeft, whatever framing it broke', async (t) => {
  const body = multipart([filePart('x'.repeat(1000))])
  const begins = [
    [`${head(body.length)}\r\n`],
    [`${head(body.length)}\r\n`, body.subarray(0, 100)],
    [`${head(body.length)}\r\n`, body.subarray(0, -1)],
    [`${head(undefined)}\r\n`, `${body.length.toString(16)}\r\n`, body, '\r\n'],
    [`${head(body.length + 1)}\r\n`, body],
  ]
  for (const begin of begins) {
    const { port, outcome } = await startReader(t)
    const client = await rawClient(t, port)
    client.send(...begin)
    client.socket.end()
    t.ok((await outcome) instanceof ClientLeft)
  }
})

t.test('Expect: 100-continue is answered only when the headers are good', async (t) => {
  const body = multipart([field('a', 'b')])
  const { port } = await startReader(t)
  const client = await rawClient(t, port)
  client.send(`${head(body.length)}Expect: 100-continue\r\n\r\n`)
  t.equal((await client.answer()).status, 100)
  client.send(body)
  t.equal((await client.answer()).status, 200)
  const other = await rawClient(t, port)
  other.send(`${head(body.length, 'text/plain')}Expect: 100-continue\r\n\r\n`)
  t.equal((await other.answer()).status, 415)
})

t.test('a client that left before the form is read, within it, is not waited for', async (t) => {
  const came = Promise.withResolvers<IncomingMessage>()
  const { port } = await startListener(t, came.resolve)
  const client = await rawClient(t, port)
  const body = multipart([filePart('a file')])
  const type = `Content-Type: multipart/form-data; boundary=${boundary}`
  const head = `POST / HTTP/1.1\r\nHost: a\r\n${type}\r\nContent-Length: ${body.length}\r\n\r\n`
  client.socket.end(Buffer.concat([Buffer.from(head), body.subarray(0, -20)]))
  const req = await came.promise
  const closed = once(req.socket, 'close')
  client.socket.destroy()
  await closed
  await t.rejects(readParts(req, {}), ClientLeft)
})
