// Clients that request much and read nothing: a list, a stream again and again, a download, a whole answer. The memory
// for them is limited, they are dropped in time, and an honest customer is served beside them. `npm run thieves`
// measures what it costs the process.

import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import type { Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { drained, json } from '../fixtures/backend-scripts.ts'
import { callerIn } from '../fixtures/files-http.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { refOf } from '../fixtures/money.ts'
import { chatOf, chatYaml, messageIdOf } from '../fixtures/session-chat.ts'
import { until } from '../fixtures/until.ts'

const MiB = 1024 * 1024
/** Memory for unread bytes, for all accounts together. */
const unsentMiB = 128
/** Readers, for all accounts together. */
const readers = 40

/** Answers with a short word or, if asked, with megabytes of frames or one large answer. */
const script: Script = async (call) => {
  const text = JSON.stringify(call.json).slice(-2000)
  if (text.includes('LARGE')) return json({ object: 'list', data: 'x'.repeat(24 * MiB) })(call)
  call.res.writeHead(200, { 'content-type': 'text/event-stream' })
  const padding = text.includes('LONG') ? 'x'.repeat(16 * 1024) : ''
  for (let i = 0; i < (padding ? 450 : 1) && !call.res.destroyed; i++) {
    const chunk = { choices: [{ index: 0, delta: { content: 'a ' } }], padding }
    if (!call.res.write(`data: ${JSON.stringify(chunk)}\n\n`)) await drained(call)
  }
  const finish = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
  call.res.end(`data: ${JSON.stringify(finish)}\n\ndata: [DONE]\n\n`)
}

async function start(t: Test, stallMs = 60_000) {
  const backend = await startBackend(t, script)
  const yaml = `limits: { reader_stall: ${stallMs}ms, readers: ${readers}, unsent: ${unsentMiB}MiB }`
  const more = { yaml, model: 'endpoints: [chat, embeddings], price: { input: 0, output: 0 }' }
  const gateway = await startGateway(t, { yaml: chatYaml(backend.url, more) })
  const greedy = await gateway.account(1_000_000, { name: 'attacker' })
  const attacker = { ...chatOf(t, gateway, greedy), ref: refOf(greedy) }
  const honest = chatOf(t, gateway, await gateway.account(1_000_000, { name: 'honest' }))
  return { gateway, attacker, honest, id: await attacker.session(), own: await honest.session() }
}

type World = Awaited<ReturnType<typeof start>>

/** Sends a request of the attacker, and never reads the answer. */
function unread(
  { gateway, attacker }: World,
  line: string,
  { body = '', pipelined = 1 } = {},
): Socket {
  const { hostname, port } = new URL(gateway.url)
  const socket = connect(Number(port), hostname).pause()
  socket.on('error', () => undefined)
  const head = [`${line} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${attacker.key}`]
  if (body) head.push('Content-Type: application/json', `Content-Length: ${body.length}`)
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`.repeat(pipelined))
  return socket
}

async function droppedBy({ gateway }: World): Promise<number> {
  const { readersDropped } = gateway.gateway.metrics
  return (await readersDropped.get()).values[0]?.value ?? 0
}

/** During `attack` an honest customer chats, lists and reads again; at least ten times. */
async function beside(t: Test, { honest, own }: World, attack: () => Promise<unknown>) {
  let isOver = false
  const attacking = attack().finally(() => (isOver = true))
  for (let times = 0; !isOver || times < 10; times++) {
    const sent = await honest.send(own)
    await sent.end()
    const again = await honest.at(`/${own}/messages/${messageIdOf(sent)}/stream`)
    await again.end()
    const list = await honest.at(`/${own}/messages?order=desc`)
    await list.end()
    if ([sent, again, list].some(({ status }) => status !== 200))
      t.fail('the honest one is refused')
  }
  await attacking
}

/** Bytes that the answers of this process hold because their clients have not read them. */
function watchUnsent(t: Test): { answers: readonly ServerResponse[]; bytes(): number } {
  const answers: ServerResponse[] = []
  const note = (message: unknown) => {
    const { request, response } = message as { request: { url: string }; response: ServerResponse }
    if (request.url.startsWith('/api/chat/sessions/')) answers.push(response)
  }
  subscribe('http.server.request.start', note)
  t.teardown(() => unsubscribe('http.server.request.start', note))
  const left = ({ destroyed, writableLength }: ServerResponse) => (destroyed ? 0 : writableLength)
  return { answers, bytes: () => answers.reduce((sum, answer) => sum + left(answer), 0) }
}

interface Flood {
  readonly line: string
  readonly times: number
  /** How many requests are sent at once on each connection. */
  readonly pipelined?: number
}

/** Opens unread connections, one after the other; resolves with the most bytes and readers that were held at once. */
async function flooded(t: Test, world: World, { line, times, pipelined = 1 }: Flood) {
  const { attacker, gateway } = world
  const { answers, bytes } = watchUnsent(t)
  const most = { bytes: 0, readers: 0 }
  const looking = setInterval(() => {
    most.bytes = Math.max(most.bytes, bytes())
    most.readers = Math.max(most.readers, gateway.gateway.pools.readers.usedBy(attacker.ref))
  }, 1)
  t.teardown(() => clearInterval(looking))
  const sockets: Socket[] = []
  await beside(t, world, async () => {
    for (let i = 0; i < times; i++) {
      const before = answers.length
      sockets.push(unread(world, line, { pipelined }))
      await until(() => {
        const own = answers.slice(before)
        const areAll = own.length === pipelined && own.every(({ headersSent }) => headersSent)
        return areAll || own.some(({ req }) => req.socket.destroyed)
      })
    }
  })
  clearInterval(looking)
  for (const socket of sockets) socket.destroy()
  t.comment(`${(most.bytes / MiB).toFixed(0)} MiB and ${most.readers} readers at most`)
  const { unsent, readers } = gateway.gateway.pools
  await until(() => unsent.usedBy(attacker.ref) + readers.usedBy(attacker.ref) === 0)
  return most
}

t.test('240 lists of large messages that nobody reads', async (t) => {
  const world = await start(t)
  const { attacker, id } = world
  for (let i = 0; i < 3; i++) {
    await (await attacker.send(id, { content: 'x'.repeat(800_000), stream: false })).end()
  }
  const line = `GET /api/chat/sessions/${id}/messages?limit=100`
  const { bytes } = await flooded(t, world, { line, times: 8, pipelined: 30 })
  t.ok(bytes > 16 * MiB, 'more is kept than of one connection')
  t.ok(
    bytes <= (unsentMiB / 2 + 16) * MiB,
    `${bytes} bytes: half of all, and what is being measured`,
  )
})

t.test('replays that nobody reads, as fast as a plan allows', async (t) => {
  const world = await start(t)
  const { attacker, id } = world
  const sent = await attacker.send(id, 'LONG')
  await sent.end()
  const line = `GET /api/chat/sessions/${id}/messages/${messageIdOf(sent)}/stream`
  const { bytes, readers: most } = await flooded(t, world, { line, times: 100 })
  t.ok(most > 1 && most <= readers / 2, `${most} readers`)
  t.ok(bytes <= (unsentMiB / 2) * MiB, `${bytes} bytes`)
})

t.test('files for everybody that strangers do not read', async (t) => {
  const world = await start(t)
  const { unsent, unsentToStrangers } = world.gateway.gateway.pools
  const sockets: Socket[] = []
  let most = 0
  await beside(t, world, async () => {
    for (let i = 0; (await droppedBy(world)) === 0 && i < 30; i++) {
      const before = unsentToStrangers.used
      sockets.push(unread(world, 'GET /docs/swagger-ui-bundle.js', { pipelined: 20 }))
      await until(async () => unsentToStrangers.used > before || (await droppedBy(world)) > 0)
      most = Math.max(most, unsentToStrangers.used)
    }
  })
  t.ok((await droppedBy(world)) > 0, `${(most / MiB).toFixed(0)} MiB`)
  t.ok(most > 0 && most <= (unsentMiB / 4 / 2) * MiB, 'one network has half of theirs')
  t.equal(unsent.usedBy('127.0.0.1'), 0, 'customers have their own')
  for (const socket of sockets) socket.destroy()
  await until(() => unsentToStrangers.used === 0)
})

t.test('a client that reads nothing is dropped after the stall time', async (t) => {
  const stallMs = 1000
  const world = await start(t, stallMs)
  const { attacker, id, gateway } = world
  const sent = await attacker.send(id, 'LONG')
  await sent.end()
  const caller = callerIn(gateway, { key: attacker.key, session: id })
  const file = await caller.make({ content: Buffer.alloc(24 * MiB, 'x') })
  const replay = `GET /api/chat/sessions/${id}/messages/${messageIdOf(sent)}/stream`
  const large = JSON.stringify({ model: 'm', input: 'LARGE' })
  const before = await droppedBy(world)
  const began = performance.now()
  for (const [line, body] of [
    [replay],
    [`GET /api/files/${file.id}`],
    ['POST /v1/embeddings', large],
  ]) {
    unread(world, line ?? '', { body: body ?? '' })
  }
  await until(async () => (await droppedBy(world)) > before)
  t.ok(performance.now() - began > 0.9 * stallMs, 'not before')
  await until(async () => (await droppedBy(world)) === before + 3)
})
