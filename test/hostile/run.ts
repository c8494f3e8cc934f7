// A gateway of its own process under 32 attackers at once: hostile clients and hostile backends, mixed. Each gets the
// documented error or a closed connection; nothing is held; the next request works; the books agree.

import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import type { OwnProcess } from '../fixtures/gateway.ts'
import { breakages, hostileBackend } from '../fixtures/hostile-backends.ts'
import type { Told } from '../fixtures/hostile-backends.ts'
import { attacks } from '../fixtures/hostile-requests.ts'
import type { Attack } from '../fixtures/hostile-requests.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import type { RawClient } from '../fixtures/raw-http.ts'
import { until } from '../fixtures/until.ts'

const attackers = 32
const rounds = 4

/** Headers and bodies have a minute; for attacks that use up their time, a second. */
function yamlFor(url: string, patience = '60s'): string {
  const model = (name: string) => {
    // The others get enough time even on a busy machine.
    const most = name === 'silent' ? '1500ms' : '60s'
    const limits = `max_output_tokens: 64, timeouts: { first_token: ${most}, total: ${most} }`
    return `  ${name}: { targets: [{ url: '${url}', max_tokens_field: max_tokens }], ${limits} }`
  }
  return `
models:
${['good', ...Object.keys(breakages)].map(model).join('\n')}
plans: { default: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: 1000 } }
plugins: { auth: { failures_per_minute_per_ip: 1000000 } }
limits: { json_v1: 1MiB, json_body: ${patience}, headers: ${patience}, sse_line: 1MiB, answer: 2MiB, bodies: 96MiB }
`
}

interface Job {
  readonly name: string
  run(): Promise<void>
}

/** Runs so many at a time until all are done. */
async function runAll(jobs: readonly Job[], atOnce: number): Promise<void> {
  const left = [...jobs]
  const worker = async () => {
    for (let job = left.shift(); job; job = left.shift()) await job.run()
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
}

interface Scene {
  readonly gateway: OwnProcess
  readonly key: string
  /** Whether the client also ends its side when it is refused; otherwise the gateway waits for it. */
  readonly ends: boolean
}

/** Resolves with undefined if all is as it should be, else with what was seen. */
async function attack(t: Test, one: Attack, { gateway, key, ends }: Scene) {
  const client = await rawClient(t, Number(new URL(gateway.url).port))
  try {
    const sending = Promise.resolve(one.send(client, key))
    sending.catch(() => undefined)
    if (one.converses) await sending
    const { status, json } = await client.answer()
    const code = json.error?.code ?? ''
    if (!one.expect.some(([s, c]) => s === status && c === code)) return `${status} ${code}`
    if (status >= 400 && json.request_id === undefined) return 'no request id'
    return one.closes ? await closing(client, ends) : undefined
  } catch (error) {
    // A client that goes on sending may be cut off before it has read its answer.
    return one.pours && /EPIPE|ECONNRESET/.test(String(error)) ? undefined : String(error)
  } finally {
    client.socket.destroy()
  }
}

/** A reset after the answer is also a closed connection: the client was still sending. */
async function closing(client: RawClient, ends: boolean): Promise<string | undefined> {
  if (ends) client.socket.end()
  const after = await client.ended().catch(() => '')
  return after === '' ? undefined : `a second answer: ${after.slice(0, 100)}`
}

async function toldBy(scene: Scene, model: string, stream: boolean): Promise<Told> {
  const { gateway, key } = scene
  const messages = [{ role: 'user', content: 'Hi' }]
  const answer = await gateway.call('/v1/chat', key, { model, messages, stream })
  const text = await answer.text()
  const { status } = answer
  if (!stream || status !== 200) return { status, code: codeIn(text) }
  return { status, code: text.endsWith('data: [DONE]\n\n') ? '' : codeIn(text) }
}

function codeIn(text: string): string {
  return /"code":"([a-z_]+)"/.exec(text)?.[1] ?? ''
}

interface Scenes {
  readonly patient: Scene
  /** For attacks that end by a time-out. */
  readonly hasty: Scene
}

function jobsFor(t: Test, { patient, hasty }: Scenes): readonly Job[] {
  const wrong = (name: string, seen: string | undefined) => {
    if (seen !== undefined) t.fail(`${name}: ${seen}`)
  }
  const fromClients = attacks.map((one) => ({
    name: one.name,
    run: async () => {
      const isSlow = one.expect.some(([status]) => status === 408)
      wrong(one.name, await attack(t, one, isSlow ? hasty : patient))
    },
  }))
  const fromBackends = Object.entries(breakages).flatMap(([model, expected]) =>
    (['whole', 'stream'] as const).map((how) => ({
      name: `${model}, ${how}`,
      run: async () => {
        const told = await toldBy(patient, model, how === 'stream')
        const isRight = told.status === expected[how].status && told.code === expected[how].code
        wrong(`${model}, ${how}`, isRight ? undefined : JSON.stringify(told))
      },
    })),
  )
  return [...fromClients, ...fromBackends]
}

interface Balance {
  readonly balance: number
  readonly reserved: number
  readonly granted: number
  readonly spent: number
}

t.test(
  '32 attackers at once: each is refused, and the gateway is as before',
  { timeout: 110_000 },
  async (t) => {
    const backend = await startBackend(t, hostileBackend)
    const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url) })
    const { key } = await gateway.account(1_000_000_000)
    const scene = { gateway, key, ends: false }
    const hurried = await spawnGateway(t, { yaml: yamlFor(backend.url, '1s') })
    const hasty = { gateway: hurried, key: (await hurried.account(1_000_000_000)).key, ends: true }
    const jobs = Array.from({ length: rounds }, (_, round) =>
      jobsFor(t, { patient: { ...scene, ends: round > 0 }, hasty }),
    ).flat()
    await runAll(jobs, attackers)
    t.comment(`${jobs.length} attacks`)
    await until(async () => (await openStreams(gateway)) === 0)
    t.same(await toldBy(scene, 'good', false), { status: 200, code: '' }, 'the next request works')
    t.same(await toldBy(scene, 'good', true), { status: 200, code: '' }, 'the next stream too')
    const balance = (await (await gateway.call('/api/billing/balance', key)).json()) as Balance
    t.match(balance, { reserved: 0, balance: balance.granted - balance.spent })
    const audit = (await (await gateway.admin('GET', 'audit')).json()) as { differences: unknown[] }
    t.same(audit.differences, [], 'the books agree')
    t.equal(await gateway.stop(), 0)
  },
)

async function openStreams({ adminUrl }: OwnProcess): Promise<number> {
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text()
  const open = [...metrics.matchAll(/^tollgate_streams_open\{.*\} (\d+)$/gm)]
  return open.reduce((sum, [, count]) => sum + Number(count), 0)
}

t.test('a megabyte of tools on a small balance is refused before a backend sees it', async (t) => {
  const backend = await startBackend(t)
  const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url) })
  const { key } = await gateway.account(1000)
  const messages = [{ role: 'user', content: 'Hi' }]
  const tools = [{ type: 'function', function: { name: 'f', description: 'x'.repeat(1_000_000) } }]
  const answer = await gateway.call('/v1/chat', key, { model: 'good', messages, tools })
  t.match(await answer.json(), { error: { code: 'insufficient_balance' } })
  t.equal(backend.requests.length, 0)
  t.equal((await gateway.call('/v1/chat', key, { model: 'good', messages })).status, 200)
})
