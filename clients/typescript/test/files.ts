// Sources of every kind, and what happens when they fail.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { Tollgate, TollgateError } from '../src/tollgate.ts'
import type { Uploadable } from '../src/tollgate.ts'

interface Came {
  readonly text: string
  readonly length: string | null
}

async function came(file: Uploadable, size?: number): Promise<Came> {
  const fetch = async (_url: string, init: RequestInit) => {
    const text = await new Response(init.body).text()
    return Response.json({ text, length: new Headers(init.headers).get('content-length') })
  }
  const gate = new Tollgate({ apiKey: 'k', baseURL: 'http://gate.test', fetch })
  return (await gate.files.upload(file, {
    sessionId: 's',
    filename: 'a.txt',
    size,
  })) as unknown as Came
}

const bytes = new TextEncoder().encode('hello')

async function* piece(): AsyncGenerator<Uint8Array> {
  yield bytes
}

test('bytes, buffers, Blobs, Files, streams and generators are all the same body', async () => {
  const sources: readonly Uploadable[] = [
    bytes,
    bytes.buffer,
    new Blob([bytes]),
    new File([bytes], 'a.txt'),
    new Blob([bytes]).stream(),
    piece(),
  ]
  for (const source of sources) {
    const { text, length } = await came(source, 5)
    assert.match(text, /\r\n\r\nhello\r\n--tollgate-[\d-]+--\r\n$/)
    assert.equal(Number(length), text.length)
  }
})

test('a stream of Node’s, whose size nobody knows', async () => {
  const { text, length } = await came(createReadStream(import.meta.filename))
  assert.match(text, /whose size nobody knows/)
  assert.equal(length, null)
})

test('a source that fails is what the upload fails with, and it is not tried again', async () => {
  const broken = new Error('the disk is gone')
  let reads = 0
  const source = async function* () {
    reads++
    yield bytes
    throw broken
  }
  await assert.rejects(came(source()), broken)
  assert.equal(reads, 1)
})

test('a source that is not of the size that was told is no file', async () => {
  for (const size of [2, 9]) await assert.rejects(came(piece(), size), TollgateError)
})

test('a source is left when the connection is lost', { timeout: 10_000 }, async (t) => {
  const server = createServer(({ socket }) => socket.resetAndDestroy())
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  const gate = new Tollgate({ apiKey: 'k', baseURL: `http://127.0.0.1:${port}` })
  let isLeft = false
  const source = async function* () {
    try {
      for (;;) yield new Uint8Array(65_536)
    } finally {
      isLeft = true
    }
  }
  const upload = gate.files.upload(source(), { sessionId: 's', filename: 'a' })
  await assert.rejects(upload, { name: 'ConnectionError' })
  while (!isLeft) await new Promise((resolve) => setTimeout(resolve, 10))
})

test('a download that was read or closed is not an empty file', async () => {
  const start = (controller: ReadableStreamDefaultController) => controller.enqueue(bytes)
  const silent = () => new ReadableStream({ start })
  const bodies: BodyInit[] = ['hello', 'hello', silent()]
  const fetch = async () => new Response(bodies.shift() ?? null)
  const gate = new Tollgate({ apiKey: 'k', baseURL: 'http://gate.test', fetch })
  const read = await gate.files.content('f')
  assert.equal(await read.text(), 'hello')
  await assert.rejects(read.text(), TollgateError)
  const left = await gate.files.content('f')
  for await (const _piece of left) break
  await assert.rejects(left.bytes(), TollgateError)
  const closed = await gate.files.content('f')
  setTimeout(() => closed.close(), 10)
  await assert.rejects(closed.bytes(), TollgateError)
})

test('what is no source of bytes is refused', async () => {
  const letters = async function* () {
    yield 'hello'
  }
  for (const bad of ['hello', 7, {}, letters()]) {
    await assert.rejects(came(bad as unknown as Uploadable), TollgateError)
  }
})

test('an upload that is sent elsewhere is not sent there, and not again', async (t) => {
  let asked = 0
  const server = createServer((request, response) => {
    asked++
    request.resume().on('end', () => response.writeHead(307, { location: '/elsewhere' }).end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  const { port } = server.address() as AddressInfo
  const gate = new Tollgate({ apiKey: 'k', baseURL: `http://127.0.0.1:${port}` })
  const upload = gate.files.upload(bytes, { sessionId: 's', filename: 'a.txt' })
  await assert.rejects(upload, { name: 'APIError', isRetriable: false })
  assert.equal(asked, 1)
})
