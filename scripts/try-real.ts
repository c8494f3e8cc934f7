// `npm run try:real`: a real llama.cpp server, a gateway in front of it, and a short chat whose charge is compared with
// the usage that the server reports; then the journeys of sessions with servers of their own, for their figures. The
// first two run until Ctrl-C; with `--once` they end at once, with 1 if a sum differs or a journey fails. The first run
// takes about 15 s and needs the Python package index; only the cache and a temporary folder are written.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { parseArgs } from 'node:util'
import OpenAI from 'openai'
import { adminToken, spawnGateway } from '../test/fixtures/gateway.ts'
import type { OwnProcess } from '../test/fixtures/gateway.ts'
import type { Teardown } from '../test/fixtures/teardown.ts'
import { endOnSignals, withTeardown } from './ending.ts'
import { startModelServer } from './model-server/start.ts'

const { values } = parseArgs({ options: { once: { type: 'boolean' } } })
const price = { input: 1, output: 4 }
const topup = 1_000_000

endOnSignals()
process.exitCode = (await withTeardown(tryIt)) ? 0 : 1

/** Whether all sums were right and all journeys kept their promises. */
async function tryIt(t: Teardown): Promise<boolean> {
  console.log('Starting a llama.cpp server (the first time it is downloaded) …')
  const server = await startModelServer()
  t.teardown(() => server.stop())
  const gateway = await startGateway(t, server.url)
  const { key } = await gateway.account(topup, { name: 'try-real' })
  console.log(`
  model server  ${server.url}
  gateway       ${gateway.url}/v1
  admin API     ${gateway.adminUrl}/admin     token ${adminToken}
  key           ${key}
`)
  let isGood = await chat(gateway.url, key)
  for (const name of ['real-sessions', 'real-sessions-cut'])
    isGood = (await journey(t, name)) && isGood
  if (values.once) return isGood
  const header = `-H 'Authorization: Bearer ${key}'`
  const body = '{"model":"tiny","stream":true,"messages":[{"role":"user","content":"Hi"}]}'
  console.log(`
Try it yourself; Ctrl-C ends both:

  curl -N ${gateway.url}/v1/chat/completions ${header} --json '${body}'
  curl ${gateway.url}/v1/models ${header}
  curl ${gateway.url}/api/billing/balance ${header}
  curl ${gateway.url}/api/billing/transactions ${header}
`)
  await once(gateway.child, 'exit')
  return isGood
}

async function startGateway(t: Teardown, backend: string): Promise<OwnProcess> {
  const yaml = `models:
  tiny:
    targets: [{ url: ${backend} }]
    price: { input: ${price.input}, output: ${price.output} }
    context_window: 2048
    max_output_tokens: 512
    endpoints: [chat, completions]
log: { level: warn }
`
  // Finding or installing a Redis may need the caller's variables: REDIS_SERVER, XDG_CACHE_HOME, those of a proxy.
  const env = process.env as Readonly<Record<string, string>>
  const gateway = await spawnGateway(t, { yaml, redisUrl: 'embedded', env })
  // Before the fixture kills it: its Redis must have ended when its folder is removed.
  t.teardown(gateway.stop)
  gateway.child.stdout?.pipe(process.stdout)
  gateway.child.stderr?.pipe(process.stderr)
  return gateway
}

interface Usage {
  readonly prompt_tokens: number
  readonly completion_tokens: number
}

/** Whether the balance is the granted tokens less the server's own counts. */
async function chat(url: string, apiKey: string): Promise<boolean> {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey })
  const messages = [{ role: 'user' as const, content: 'What does a gateway do?' }]
  const asked = { model: 'tiny', messages, max_tokens: 60 }
  const whole = await client.chat.completions.create(asked)
  console.log(`Not streamed: ${whole.choices[0]?.message.content ?? ''}\n`)
  process.stdout.write('Streamed: ')
  const stream = await client.chat.completions.create({
    ...asked,
    stream: true,
    stream_options: { include_usage: true },
  })
  const used: (Usage | null | undefined)[] = [whole.usage]
  for await (const chunk of stream) {
    process.stdout.write(chunk.choices[0]?.delta.content ?? '')
    if (chunk.usage) used.push(chunk.usage)
  }
  return compare(url, apiKey, used)
}

async function compare(url: string, apiKey: string, used: readonly (Usage | null | undefined)[]) {
  let cost = 0
  console.log('\n')
  for (const usage of used) {
    if (!usage) throw new Error('the server reported no usage')
    const { prompt_tokens: prompt, completion_tokens: completion } = usage
    cost += prompt * price.input + completion * price.output
    console.log(`The server counted ${prompt} + ${completion} tokens`)
  }
  const headers = { authorization: `Bearer ${apiKey}` }
  const answer = await fetch(`${url}/api/billing/balance`, { headers })
  const { spent, reserved } = (await answer.json()) as { spent: number; reserved: number }
  const isEqual = spent === cost && reserved === 0
  console.log(`which cost ${cost}; charged were ${spent}${isEqual ? '' : ': NOT THE SAME'}`)
  return isEqual
}

/** Runs a journey, and prints what it promises and what it measured. */
async function journey(t: Teardown, name: string): Promise<boolean> {
  const file = resolve(import.meta.dirname, `../test/journeys/${name}.ts`)
  const child = spawn(process.execPath, [file], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'exit') as Promise<[number | null]>
  t.teardown(async () => {
    child.kill('SIGTERM')
    await ended
  })
  console.log(`\n${name}:`)
  for await (const line of createInterface(child.stdout)) {
    const [, figure] = /^ +# (?!Subtest)(.*)/.exec(line) ?? []
    const [, isNot, promise] = /^(not )?ok \d+ - (.*?)(?: #.*)?$/.exec(line) ?? []
    if (figure) console.log(`      ${figure}`)
    if (promise) console.log(`${isNot ? '  NOT ' : '  '}${promise}`)
  }
  const [code] = await ended
  return code === 0
}
