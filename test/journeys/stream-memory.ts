// What a session's stream keeps in memory while it runs, more than a plain stream: its newest frames, its text, and what
// other readers need.

import { Agent, request } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { once } from 'node:events'
import t from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { outputOnly } from '../fixtures/money.ts'
import { until } from '../fixtures/until.ts'

const streams = 600
const events = 80
const mostKib = 22

const choices = [{ index: 0, delta: { content: 'word ' }, finish_reason: null }]
const event = `data: ${JSON.stringify({ id: 'c', filler: 'x'.repeat(180), choices })}\n\n`
const messages = [{ role: 'user', content: 'Tell me of the rain. '.repeat(30) }]

t.test(`a stream of a session keeps less than ${mostKib} KiB more than a plain one`, async (t) => {
  const open = new Set<ServerResponse>()
  const backend = await startBackend(t, async ({ res }) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    res.write(event)
    open.add(res)
    await once(res, 'close')
    open.delete(res)
  })
  const gateway = await spawnGateway(t, {
    yaml: outputOnly(backend.url),
    flags: [`--import=${new URL('../fixtures/tell-memory.ts', import.meta.url).href}`],
    isBare: true,
  })
  const { key } = await gateway.account(1_000_000_000)
  const keptNow = async () => {
    const { length } = gateway.log
    process.kill(gateway.pid, 'SIGUSR2')
    const told = () => /^memory (\d+)/m.exec(gateway.log.slice(length).join('\n'))?.[1]
    await until(() => told() !== undefined)
    return Number(told()) / 1024
  }
  const agent = new Agent({ maxSockets: Infinity })
  t.teardown(() => agent.destroy())
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const ask = async (path: string, body: object, onData: (bytes: number) => void) => {
    const asking = request(`${gateway.url}${path}`, { method: 'POST', agent, headers })
    asking.end(JSON.stringify(body))
    const [answer] = (await once(asking, 'response')) as [IncomingMessage]
    answer.on('data', (chunk: Buffer) =>
      onData(chunk.toString('latin1').split('filler').length - 1),
    )
    answer.on('error', () => undefined)
    return answer
  }
  const keptBy = async (paths: readonly string[], body: object) => {
    const before = await keptNow()
    let got = 0
    const answers = await Promise.all(paths.map((path) => ask(path, body, (more) => (got += more))))
    for (let each = 1; each <= events; each++) {
      await until(() => got === each * paths.length)
      for (const res of open) res.write(event)
    }
    const kept = ((await keptNow()) - before) / paths.length
    for (const answer of answers) answer.destroy()
    return kept
  }
  const sessionPath = async () => {
    const made = await gateway.call('/api/chat/sessions', key, {})
    return `${made.headers.get('location')}/messages`
  }
  const paths: string[] = []
  while (paths.length < streams) paths.push(await sessionPath())
  const plainPaths = Array.from({ length: streams }, () => '/v1/chat/completions')
  const plain = await keptBy(plainPaths, { model: 'm', stream: true, messages })
  await until(() => open.size === 0)
  const session = await keptBy(paths, { model: 'm', messages, max_tokens: 10_000 })
  t.ok(session - plain < mostKib, `${session.toFixed(1)} KiB, a plain one ${plain.toFixed(1)}`)
})
