// Clients that ask for much and take nothing of it: a list, a stream again and again, a download, a whole answer. They
// cost bounded memory, go in time, and an honest customer is served as fast as before.

import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import type { Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import type { Script } from '../fixtures/backend.ts'
import { drained, json } from '../fixtures/backend-scripts.ts'
import { callerIn } from '../fixtures/files-http.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { chatOf, chatYaml, messageIdOf } from '../fixtures/session-chat.ts'
import { stopwatch } from '../fixtures/stopwatch.ts'
import { until } from '../fixtures/until.ts'

const MiB = 1024 * 1024
const stallMs = 3000
/** 100 where nothing else runs; the machine of the tests has two cores, and both sides are on it. */
/** How soon garbage is collected depends on how busy the machine is. Exact: `npm run thieves`. */
const mostGrown = 250 * 2 ** 20
const mostSlowerMs = 1000
/** Of all accounts. */
const readers = 40
const yaml = `limits: { reader_stall: ${stallMs}ms, heartbeat: 1s, readers: ${readers} }`

/** A short word, or for who asks for it megabytes of frames, or one large answer. */
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

const residentOf = ({ pid }: OwnProcess): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024

async function start(t: Test) {
  const backend = await startBackend(t, script)
  const more = { yaml, model: 'endpoints: [chat, embeddings], price: { input: 0, output: 0 }' }
  const gateway = await spawnGateway(t, { yaml: chatYaml(backend.url, more) })
  const attacker = chatOf(t, gateway, await gateway.account(1_000_000, { name: 'attacker' }))
  const honest = chatOf(t, gateway, await gateway.account(1_000_000, { name: 'honest' }))
  return { gateway, attacker, honest, id: await attacker.session(), own: await honest.session() }
}

type World = Awaited<ReturnType<typeof start>>

/** Sends a request as the attacker, and never reads. */
function unread({ gateway, attacker }: World, line: string, body = ''): Socket {
  const { hostname, port } = new URL(gateway.url)
  const socket = connect(Number(port), hostname).pause()
  socket.on('error', () => undefined)
  const head = [`${line} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${attacker.key}`]
  if (body) head.push('Content-Type: application/json', `Content-Length: ${body.length}`)
  socket.write(`${head.join('\r\n')}\r\n\r\n${body}`)
  return socket
}

async function metricOf({ gateway }: World, name: string): Promise<number> {
  const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text()
  const line = text.split('\n').find((one) => one.startsWith(name))
  return Number(line?.split(' ')[1] ?? 0)
}

/** While `attack` runs, an honest customer chats, lists and reads again. All of it succeeds; answers the slowest, ms. */
async function beside(t: Test, { honest, own }: World, attack: () => Promise<unknown>) {
  let isOver = false
  const attacking = attack().finally(() => (isOver = true))
  const times: number[] = []
  while (!isOver || times.length < 10) {
    const began = performance.now()
    const sent = await honest.send(own)
    await sent.end()
    const again = await honest.at(`/${own}/messages/${messageIdOf(sent)}/stream`)
    await again.end()
    const list = await honest.at(`/${own}/messages?order=desc`)
    await list.end()
    if ([sent, again, list].some(({ status }) => status !== 200))
      t.fail('the honest one is refused')
    times.push(performance.now() - began)
  }
  await attacking
  return times.toSorted((a, b) => a - b)
}

const p99 = (times: readonly number[]) => times[Math.ceil(times.length * 0.99) - 1] ?? 0

/** Honest reading of as much: what the engine has not collected yet of that is nobody's attack. */
async function warmUp({ honest }: World): Promise<void> {
  const id = await honest.session()
  const sent = await honest.send(id, 'LONG')
  await sent.end()
  for (let i = 0; i < 30; i++) {
    await (await honest.at(`/${id}/messages/${messageIdOf(sent)}/stream`)).end()
  }
}

async function measured(t: Test, world: World, attack: () => Promise<unknown>) {
  await warmUp(world)
  const quiet = await beside(t, world, async () => undefined)
  const before = residentOf(world.gateway)
  let peak = before
  const looking = setInterval(() => (peak = Math.max(peak, residentOf(world.gateway))), 50)
  t.teardown(() => clearInterval(looking))
  const times = await beside(t, world, attack)
  clearInterval(looking)
  const grown = peak - before
  t.comment(
    `RSS +${(grown / MiB).toFixed(0)} MiB; honest p99 ${p99(quiet).toFixed(0)} → ${p99(times).toFixed(0)} ms`,
  )
  return { grown, slower: p99(times) - p99(quiet) }
}

t.test('80 lists of large messages that nobody reads', { timeout: 120_000 }, async (t) => {
  const world = await start(t)
  const { attacker, id } = world
  for (let i = 0; i < 30; i++) {
    await (await attacker.send(id, { content: 'x'.repeat(800_000), stream: false })).end()
  }
  const sockets: Socket[] = []
  const { grown, slower } = await measured(t, world, async () => {
    for (let i = 0; i < 80; i++) {
      sockets.push(unread(world, `GET /api/chat/sessions/${id}/messages?limit=100`))
      await pause(50)
    }
  })
  for (const socket of sockets) socket.destroy()
  t.ok(grown < mostGrown)
  t.ok(slower < mostSlowerMs)
})

t.test('replays that nobody reads, as fast as a plan allows', { timeout: 120_000 }, async (t) => {
  const world = await start(t)
  const { attacker, id } = world
  const sent = await attacker.send(id, 'LONG')
  await sent.end()
  const path = `/api/chat/sessions/${id}/messages/${messageIdOf(sent)}/stream`
  const sockets: Socket[] = []
  let most = 0
  const { grown, slower } = await measured(t, world, async () => {
    for (let i = 0; i < 100; i++) {
      sockets.push(unread(world, `GET ${path}`))
      most = Math.max(most, await metricOf(world, 'tollgate_streams_open{kind="session"}'))
      await pause(100)
    }
  })
  for (const socket of sockets) socket.destroy()
  t.comment(`${most} were open at a time`)
  t.ok(most <= readers / 2 + 1)
  t.ok(grown < mostGrown)
  t.ok(slower < mostSlowerMs)
})

t.test('who takes nothing goes after the stall time, whatever it asked for', async (t) => {
  const world = await start(t)
  const { attacker, id, gateway } = world
  const sent = await attacker.send(id, 'LONG')
  await sent.end()
  const caller = callerIn(gateway, { key: attacker.key, session: id })
  const file = await caller.make({ content: Buffer.alloc(24 * MiB, 'x') })
  const replay = `GET /api/chat/sessions/${id}/messages/${messageIdOf(sent)}/stream`
  const large = JSON.stringify({ model: 'm', input: 'LARGE' })
  const kinds = [[replay], [`GET /api/files/${file.id}`], ['POST /v1/embeddings', large]] as const
  for (const [line, body] of kinds) {
    const before = await metricOf(world, 'tollgate_readers_dropped_total')
    const passed = stopwatch(t)
    const socket = unread(world, line, body)
    const isDropped = async () => (await metricOf(world, 'tollgate_readers_dropped_total')) > before
    await until(isDropped, 30_000)
    const ms = passed()
    socket.destroy()
    t.comment(`${line.slice(0, 20)}…: gone after ${ms.toFixed(0)} ms`)
    t.ok(ms > 0.9 * stallMs && ms < 1.5 * stallMs)
  }
})
