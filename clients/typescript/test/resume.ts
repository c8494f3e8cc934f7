// How a caller's signal ends streams and downloads that were resumed over another connection.

import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { test } from 'node:test'
import { ConnectionError, Tollgate } from '../src/tollgate.ts'

const encoder = new TextEncoder()

/** What each connection sends, in turn; the last one stays open and silent. */
function gateOf(said: readonly [text: string, init: ResponseInit][]): Tollgate {
  const left = [...said]
  const fetch = async () => {
    const [text, init] = left.shift() ?? ['', { status: 418 }]
    const isLast = left.length === 0
    const start = (controller: ReadableStreamDefaultController) => {
      controller.enqueue(encoder.encode(text))
      if (!isLast) controller.close()
    }
    return new Response(new ReadableStream({ start }), init)
  }
  return new Tollgate({ apiKey: 'k', baseURL: 'http://gate.test', fetch })
}

async function assertEnds(
  signals: AbortController,
  pieces: AsyncIterable<unknown>,
  count: number,
): Promise<void> {
  const reason = new Error('enough')
  let came = 0
  const read = async () => {
    for await (const _piece of pieces) {
      if (++came === count) setTimeout(() => signals.abort(reason), 10)
    }
  }
  await assert.rejects(read(), reason)
  assert.equal(came, count)
  assert.equal(getEventListeners(signals.signal, 'abort').length, 0)
}

test('a stream that was read on ends with the signal', { timeout: 10_000 }, async () => {
  const headers = { 'content-type': 'text/event-stream', 'x-message-id': 'm' }
  const gate = gateOf([
    ['id: m:0\ndata: {}\n\n', { headers }],
    ['id: m:1\ndata: {}\n\n', { headers }],
  ])
  const left = new AbortController()
  const { signal } = left
  await assertEnds(left, await gate.messages.create('s', { content: 'Hi' }, { signal }), 2)
})

test('… and so does a download', { timeout: 10_000 }, async () => {
  const headers = { etag: '"e"', 'content-length': '10' }
  const more = { etag: '"e"', 'content-range': 'bytes 5-9/10' }
  const gate = gateOf([
    ['hello', { headers }],
    ['wor', { status: 206, headers: more }],
  ])
  const left = new AbortController()
  await assertEnds(left, await gate.files.content('f', { signal: left.signal }), 2)
})

test('… and a stream that asks how its message ended', { timeout: 10_000 }, async () => {
  const headers = { 'content-type': 'text/event-stream', 'x-message-id': 'm' }
  const signals = new AbortController()
  const reason = new Error('enough')
  const answers = [
    new Response('id: m:0\ndata: {}\n\n', { headers }),
    new Response(null, { status: 204 }),
  ]
  const fetch = async (_url: string, { signal }: RequestInit) => {
    const answer = answers.shift()
    if (answer) return answer
    setTimeout(() => signals.abort(reason), 10)
    return await new Promise<Response>((_resolve, reject) => {
      signal?.addEventListener('abort', () => reject(reason), { once: true })
    })
  }
  const gate = new Tollgate({ apiKey: 'k', baseURL: 'http://gate.test', fetch })
  const { signal } = signals
  const stream = await gate.messages.create('s', { content: 'Hi' }, { signal })
  await assert.rejects(stream.finalMessage(), reason)
  assert.equal(getEventListeners(signal, 'abort').length, 0)
})

test('what came in one piece ends with the signal, too', { timeout: 10_000 }, async () => {
  const headers = { 'content-type': 'text/event-stream' }
  const gate = gateOf([['data: {}\n\n'.repeat(9), { headers }]])
  const signals = new AbortController()
  const { signal } = signals
  const body = { model: 'm', messages: [], stream: true } as const
  const stream = await gate.chat.completions.create(body, { signal })
  const reason = new Error('enough')
  let came = 0
  const read = async () => {
    for await (const _chunk of stream) if (++came === 2) signals.abort(reason)
  }
  await assert.rejects(read(), reason)
  assert.equal(came, 2)
})

test('a signal’s reason is told, whatever it is', { timeout: 10_000 }, async () => {
  const lost = await new Tollgate({
    apiKey: 'k',
    baseURL: 'http://gate.test',
    fetch: refuse,
  }).models
    .retrieve('m', { maxRetries: 0 })
    .catch((error: unknown) => error)
  assert.ok(lost instanceof ConnectionError)
  const headers = { 'content-type': 'text/event-stream', 'x-message-id': 'm' }
  const gate = gateOf([
    ['id: m:0\ndata: {}\n\n', { headers }],
    ['', { headers }],
    ['', { headers }],
  ])
  const signals = new AbortController()
  const { signal } = signals
  const stream = await gate.messages.create('s', { content: 'Hi' }, { signal })
  const read = async () => {
    for await (const _chunk of stream) setTimeout(() => signals.abort(lost), 10)
  }
  await assert.rejects(read(), (error) => error === lost)
})

test('closing a stream that waits ends its loop', { timeout: 10_000 }, async () => {
  let asked = 0
  const fetch = async () => {
    asked += 1
    const headers = { 'content-type': 'text/event-stream', 'retry-after': '60' }
    if (asked === 1) return new Response('id: m:0\ndata: {}\n\n', { headers })
    setTimeout(() => stream.close(), 10)
    return new Response('', { status: 503, headers })
  }
  const gate = new Tollgate({ apiKey: 'k', baseURL: 'http://gate.test', fetch })
  const stream = await gate.messages.create('s', { content: 'Hi' })
  let came = 0
  for await (const _chunk of stream) came += 1
  assert.deepEqual([came, asked], [1, 2])
})

test(
  'a download that is closed as its rest arrives gives none of it',
  { timeout: 10_000 },
  async () => {
    // Each close is in another turn of the event loop, while the answer is on its way to its reader.
    await Promise.all(Array.from({ length: 20 }, (_, turns) => assertClosed(turns)))
  },
)

async function assertClosed(turns: number): Promise<void> {
  let isClosed = false
  let atClose = -1
  const rest = new ReadableStream({
    start: (controller) => controller.enqueue(encoder.encode('world')),
    cancel: () => void (isClosed = true),
  })
  let asked = 0
  const fetch = async () => {
    asked += 1
    const first = { etag: '"e"', 'content-length': '10' }
    if (asked === 1) return new Response('hello', { headers: first })
    void closeAfter(turns)
    const headers = { etag: '"e"', 'content-range': 'bytes 5-9/10' }
    return new Response(rest, { status: 206, headers })
  }
  const closeAfter = async (left: number) => {
    for (let turn = 0; turn < left; turn++) await Promise.resolve()
    download.close()
    atClose = download.position
  }
  const gate = new Tollgate({ apiKey: 'k', baseURL: 'http://gate.test', fetch })
  const download = await gate.files.content('f')
  await assert.rejects(download.bytes(), /closed already/)
  assert.equal(download.position, atClose, `after ${turns} turns`)
  assert.ok(isClosed)
}

function refuse(): Promise<Response> {
  return Promise.reject(new TypeError('fetch failed'))
}
