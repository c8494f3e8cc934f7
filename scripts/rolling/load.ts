// Customers of a company that restarts its gateways: streams, one begun when another has ended, and short requests at a
// steady rate. Counts what each of them got.

import { Agent, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'

export interface LoadOptions {
  readonly url: string
  readonly keys: readonly string[]
  /** The streams that are open at a time. */
  readonly streams: number
  readonly streamSeconds: number
  /** Requests a second; every tenth has a body of 100 KB. */
  readonly rate: number
  readonly trace: string
}

export interface Tally {
  streams: number
  requests: number
  /** What was no whole answer, and how often. */
  readonly failed: Map<string, number>
}

export interface Load {
  readonly tally: Tally
  /** Begins nothing more; resolves when all that runs has ended. */
  stop(): Promise<void>
}

/** Ten tokens come at a time, each 100 ms. */
const tokensPerSecond = 100
const gapMs = 100
const shortAnswer = 10
/** A load balancer may be unable to send such a request twice. */
const longPrompt = 'Hello! '.repeat(15_000)
const longEvery = 10

export function startLoad(options: LoadOptions): Load {
  const stopping = new AbortController()
  const tally: Tally = { streams: 0, requests: 0, failed: new Map() }
  const agent = new Agent({ keepAlive: true })
  const ask = (at: number, fields: object) => send(options, { agent, at, fields })
  const running = new Set<Promise<void>>()
  const run = (one: Promise<void>) => {
    running.add(one)
    void one.then(() => running.delete(one))
  }
  const note = (failure: string | undefined) => {
    if (failure !== undefined) tally.failed.set(failure, (tally.failed.get(failure) ?? 0) + 1)
  }
  const stream = async (at: number) => {
    // So that they do not all end at once.
    let part = (at + 1) / options.streams
    while (!stopping.signal.aborted) {
      const max_tokens = Math.max(10, Math.round(part * options.streamSeconds * tokensPerSecond))
      tally.streams++
      note(await ask(at, { stream: true, max_tokens, user: `gap:${gapMs}` }))
      part = 1
    }
  }
  const requests = async () => {
    const startedAt = performance.now()
    for (let sent = 0; !stopping.signal.aborted; sent++) {
      const early = startedAt + (1000 * sent) / options.rate - performance.now()
      if (early > 0) await pause(early, undefined, { signal: stopping.signal }).catch(() => {})
      tally.requests++
      const content = sent % longEvery === 0 ? longPrompt : 'Hello!'
      const messages = [{ role: 'user', content }]
      run(ask(sent, { messages, max_tokens: shortAnswer }).then(note))
    }
  }
  for (let at = 0; at < options.streams; at++) run(stream(at))
  run(requests())
  return {
    tally,
    async stop() {
      stopping.abort()
      while (running.size > 0) await Promise.all(running)
      agent.destroy()
    },
  }
}

interface Sending {
  readonly agent: Agent
  readonly at: number
  readonly fields: object
}

/** Resolves with why it failed, or undefined. */
async function send(
  { url, keys, trace }: LoadOptions,
  { agent, at, fields }: Sending,
): Promise<string | undefined> {
  const body = JSON.stringify({
    model: 'end',
    messages: [{ role: 'user', content: 'Hello!' }],
    ...fields,
  })
  const req = request(`${url}/v1/chat/completions`, {
    method: 'POST',
    agent,
    headers: {
      authorization: `Bearer ${keys[at % keys.length]}`,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      traceparent: `00-${trace}-00000000000000a1-01`,
    },
  })
  try {
    const answering = once(req, 'response') as Promise<[IncomingMessage]>
    req.end(body)
    const [res] = await answering
    const answer = await text(res)
    return failureOf(res.statusCode ?? 0, answer, 'stream' in fields)
  } catch (error) {
    return String(error)
  }
}

function failureOf(status: number, answer: string, isStream: boolean): string | undefined {
  const [code = ''] = /(?<="code":")[a-z_]+/.exec(answer) ?? []
  if (status !== 200) return `${status} ${code}`
  if (!isStream) return answer.includes('"finish_reason":"stop"') ? undefined : 'not whole'
  return answer.endsWith('data: [DONE]\n\n') ? undefined : `not whole ${code}`
}
