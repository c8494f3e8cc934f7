// `npm run pictures:hold`: docs/images/hold.mmd, which `npm run pictures` draws: the balance of an account while it has one
// stream, and what is available of it, as the gateway answers both, with a hold in full and with one in slices. Needs a
// Redis, which is installed as for the tests.

import { writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startBackend } from '../test/fixtures/backend.ts'
import { chat } from '../test/fixtures/backend-model.ts'
import { Gate } from '../test/fixtures/gate.ts'
import { startGateway } from '../test/fixtures/gateway.ts'
import { balanceOf } from '../test/fixtures/money.ts'
import type { Teardown } from '../test/fixtures/teardown.ts'
import { endOnSignals, withTeardown } from './ending.ts'

const file = resolve(import.meta.dirname, '../docs/images/hold.mmd')
const tokens = 5000
const max_tokens = 4000
/** The answer is shorter than it may be, as most are. */
const chunks = 1600
/** Each word is one token, also by the gateway's own count. */
const words = ' once there was a river that had a long way to go to the sea and'.split(/(?= )/)
const text = (i: number) => words[i % words.length] ?? ''
const slice = 512
const seconds = 8
const sampleMs = 100
const chunksASample = 25

interface Samples {
  readonly balance: number[]
  readonly available: number[]
}

endOnSignals()
const { full, sliced } = await withTeardown(async (t) => ({
  full: await sample(t, 'full'),
  sliced: await sample(t, 'sliced'),
}))
await writeFile(file, picture())
console.log(`${file} written`)

async function sample(t: Teardown, mode: string): Promise<Samples> {
  const gate = new Gate()
  const backend = await startBackend(t, chat({ gate, chunks, text }))
  const gateway = await startGateway(t, {
    yaml: `models: { m: { targets: [{ url: '${backend.url}' }], max_output_tokens: ${max_tokens} } }
plugins: { metering: { hold: { mode: ${mode}, slice: ${slice} } } }`,
  })
  const account = await gateway.account(tokens)
  const samples: Samples = { balance: [], available: [] }
  const take = async () => {
    const { balance, available } = await balanceOf(gateway, account)
    samples.balance.push(balance)
    samples.available.push(available)
  }
  const messages = [{ role: 'user', content: 'Tell me a story.' }]
  const begunMs = performance.now()
  await take()
  const answer = await gateway.call('/v1/chat', account.key, { model: 'm', stream: true, messages })
  const ended = answer.text()
  for (let i = 1; i <= (seconds * 1000) / sampleMs; i++) {
    await pause(Math.max(0, begunMs + i * sampleMs - performance.now()))
    await take()
    gate.next(chunksASample)
  }
  await ended
  return samples
}

function picture(): string {
  const line = (name: string, amounts: readonly number[]) =>
    `  line "${name}" [${amounts.join(', ')}]`
  return [
    '---',
    'config:',
    '  xyChart: { width: 900, height: 420 }',
    "  themeVariables: { xyChart: { plotColorPalette: '#888888, #c0392b, #2471a3' } }",
    '---',
    'xychart-beta',
    `  title "A stream of ${chunks} tokens that may have ${max_tokens}"`,
    `  x-axis "seconds" 0 --> ${seconds}`,
    `  y-axis "tokens" 0 --> ${tokens}`,
    line('balance', full.balance),
    line('available, held in full', full.available),
    line(`available, in slices of ${slice}`, sliced.available),
    '',
  ].join('\n')
}
