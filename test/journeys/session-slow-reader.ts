// Readers that stop reading a session's stream: they are dropped, delay nobody, take no memory, and can resume later.

import { readFileSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { drained } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { metricOf } from '../fixtures/metric.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { chatOf, chatYaml, messageIdOf } from '../fixtures/session-chat.ts'
import type { Live } from '../fixtures/session-chat.ts'
import { parseStream } from '../fixtures/sse-grammar.ts'
import { until } from '../fixtures/until.ts'

const events = 1500
/** Padding beside the text, so that the message itself stays small. */
const text = 'x'.repeat(16 * 1024)
const stuckReaders = 16
/** Without a limit, the stuck readers would take 16 times 24 MiB on each gateway, and more in between. */
const mayGrow = 320 * 1024 * 1024

const yaml = `
limits: { reader_stall: 2s, heartbeat: 50ms }
plugins: { sessions: { replay_bytes: 64MiB } }
`
const generous = 'max_output_tokens: 100000000, context_window: 200000000'

/** Sends everything as fast as the gateway reads it, and finishes when the gate lets it. */
function pouring(gate: Gate): Parameters<typeof startBackend>[1] {
  return async (call) => {
    call.res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (let i = 0; i < events && !call.res.destroyed; i++) {
      const chunk = { choices: [{ index: 0, delta: { content: `${i} ` } }], padding: text }
      if (!call.res.write(`data: ${JSON.stringify(chunk)}\n\n`)) await drained(call)
    }
    await gate.wait()
    const finish = { choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }
    call.res.end(`data: ${JSON.stringify(finish)}\n\ndata: [DONE]\n\n`)
  }
}

function peakOf({ pid }: OwnProcess): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}

const droppedBy = (gateway: OwnProcess) => metricOf(gateway, 'tollgate_readers_dropped_total ')

t.test(
  'stuck readers delay nobody, are dropped, and resume later',
  { timeout: 180_000 },
  async (t) => {
    const gate = new Gate()
    const backend = await startBackend(t, pouring(gate))
    const redis = await startRedis(t)
    const setup = { yaml: chatYaml(backend.url, { yaml, model: generous }), redis }
    const owner = await spawnGateway(t, setup)
    const other = await spawnGateway(t, setup)
    const chat = chatOf(t, owner, await owner.account(1_000_000_000))
    const id = await chat.session()
    const peaks = [peakOf(owner), peakOf(other)]
    const live = await chat.send(id)
    const message = messageIdOf(live)
    const path = `/${id}/messages/${message}/stream`
    const stuck: Live[] = []
    for (const on of [owner, other]) {
      for (let i = 0; i < stuckReaders; i++) {
        const reader = await chat.at(path, {}, on)
        reader.pause()
        stuck.push(reader)
      }
    }
    await live.until(`id: ${message}:${events - 1}\n`)
    for (const gateway of [owner, other]) {
      await until(async () => (await droppedBy(gateway)) === stuckReaders, 60_000)
    }
    gate.open()
    const whole = await live.end()
    t.equal(parseStream(whole, { first: 0, message }).frames.length, events + 2)
    for (const [i, gateway] of [owner, other].entries()) {
      const grown = peakOf(gateway) - (peaks[i] ?? 0)
      t.ok(grown < mayGrow, `${Math.round(grown / 1024 / 1024)} MiB more`)
    }
    for (const reader of [stuck[0], stuck.at(-1)]) {
      if (reader)
        await goesOn(t, reader, { whole, message, at: (from) => chat.at(`${path}${from}`) })
    }
  },
)

interface Rest {
  readonly whole: Buffer
  readonly message: string
  at(query: string): Promise<Live>
}

async function goesOn(t: Test, reader: Live, { whole, message, at }: Rest): Promise<void> {
  reader.resume()
  const seen = parseStream(await reader.cut(), { first: 0, message, isCut: true }).frames
  const last = seen.at(-1)?.seq ?? -1
  t.ok(last < events, `it had read up to ${last}`)
  const rest = await at(last < 0 ? '' : `?starting_after=${last}`)
  const { frames } = parseStream(await rest.end(), { first: last + 1, message })
  const all = parseStream(whole, { first: 0, message }).frames
  t.strictSame([...seen, ...frames], all, 'nothing is missing, nothing comes twice')
}
