// The program by which the conformance runner drives this client: a line of JSON in, a line of JSON out. Uses only the
// public API, except that it stops the clock. clients/conformance/README.md describes the words.

import { createInterface } from 'node:readline'
import { inspect } from 'node:util'
import { clock } from '../src/clock.ts'
import { Tollgate } from '../src/tollgate.ts'
import { errorOf } from './errors.ts'
import { act } from './steps.ts'
import type { Json, Step } from './steps.ts'

interface Line {
  readonly client?: {
    readonly base_url?: string
    readonly api_key?: string
    readonly max_retries?: number
    readonly connect_timeout_ms?: number
    readonly idle_timeout_ms?: number
  }
  readonly steps: readonly Step[]
}

let waits: number[] = []
clock.sleep = async (ms, signal) => {
  waits.push(ms)
  signal?.throwIfAborted()
}

async function run({ client = {}, steps }: Line): Promise<Json> {
  waits = []
  const shown: string[] = []
  const told: Json[] = []
  const show = (value: unknown) => void shown.push(...waysToShow(value))
  try {
    const gate = new Tollgate({
      baseURL: client.base_url,
      apiKey: client.api_key,
      maxRetries: client.max_retries,
      connectTimeout: client.connect_timeout_ms,
      idleTimeout: client.idle_timeout_ms,
    })
    show(gate)
    for (const step of steps) {
      const saw = await act(gate, step, show)
      told.push(saw)
    }
  } catch (error) {
    show(error)
    told.push({ error: errorOf(error) })
  }
  return { steps: told, waits, shown }
}

function waysToShow(value: unknown): readonly string[] {
  const deep = inspect(value, { depth: Infinity, showHidden: true, getters: true })
  const stack = value instanceof Error ? [value.stack ?? ''] : []
  return [inspect(value), deep, String(value), JSON.stringify(value) ?? '', ...stack]
}

for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue
  const answer = await run(JSON.parse(line) as Line)
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
