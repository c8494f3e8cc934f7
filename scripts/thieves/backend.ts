// A model server that counts honestly and behaves as the model's mode says. `truths` has what it did, whether or not it
// reported that. It stops some tokens after its connection has closed, as real servers do.

import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { openPort } from '../../src/listeners/port.ts'
import { isModelName, modeOf } from './models.ts'
import type { Mode } from './models.ts'
import { obey } from './parameters.ts'
import { addressesIn, chatPrompt, inputPrompt, rerankPrompt } from './prompt.ts'
import { stream, whole } from './speech.ts'
import { Account, Truths } from './truth.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'

export type Json = Readonly<Record<string, unknown>>

/** One request being answered. */
export interface Call {
  readonly res: ServerResponse
  readonly body: Json
  readonly mode: Mode
  readonly account: Account
  /** Generated tokens of one choice. */
  readonly output: number
  readonly choices: number
  /** How many times each choice is generated; only the best one is sent. */
  readonly tries: number
  readonly isChat: boolean
}

export interface HonestBackend {
  /** Ends in /v1. */
  readonly url: string
  readonly truths: Truths
}

export async function startHonestBackend(t: Teardown): Promise<HonestBackend> {
  const truths = new Truths()
  const patient = { keepAliveTimeout: 0, requestTimeout: 0, headersTimeout: 0 }
  const create = () => {
    const server = createServer(patient, (req, res) => {
      answer(req, res, truths).catch(() => res.destroy())
    })
    return server.on('connection', (socket) => socket.on('error', () => undefined))
  }
  // Many gateways connect at once; a full queue looks like a server that is not there.
  const { servers, port } = await openPort(create, { host: '127.0.0.1', port: 0, wide: 'first' })
  t.teardown(async () => {
    for (const server of servers) {
      server.close()
      server.closeAllConnections()
    }
  })
  return { url: `http://127.0.0.1:${port}/v1`, truths }
}

async function answer(req: IncomingMessage, res: ServerResponse, truths: Truths): Promise<void> {
  const text = (await buffer(req)).toString()
  const path = (req.url ?? '').replace(/^\/v1/, '')
  const parsed = JSON.parse(text || '{}') as Json
  const name = String(parsed['model'])
  const mode: Mode = isModelName(name) ? modeOf(name) : { usage: 'end' }
  const body = mode.goKeys ? (withGoKeys(parsed) as Json) : parsed
  const trace = /^00-([0-9a-f]{32})-/.exec(String(req.headers['traceparent']))?.[1] ?? ''
  const truth = truths.of(trace)
  truth.begin()
  const account = new Account(truth, name)
  const closed = new Promise((resolve) => res.once('close', resolve))
  try {
    const { output, names } = obey(body, account)
    for (const one of [...names, ...addressesIn(body['messages'])]) truth.reached.add(one)
    const bound = numberOf(body['max_tokens']) ?? numberOf(body['max_completion_tokens']) ?? 400
    const call: Call = {
      res,
      body,
      mode,
      account,
      output: Math.max(mode.boundless ?? bound, output),
      choices: (numberOf(body['n']) ?? 1) * promptsIn(body['prompt']),
      tries: Math.max(1, (numberOf(body['best_of']) ?? 1) / (numberOf(body['n']) ?? 1)),
      isChat: path.startsWith('/chat'),
    }
    await serve(call, path)
  } finally {
    truth.end()
    void closed.then(() => {
      if (!res.writableFinished) account.isCut(body['stream'] === true ? 'streamed' : 'whole')
    })
  }
}

async function serve(call: Call, path: string): Promise<void> {
  const { body, account } = call
  if (path === '/rerank') {
    account.addPrompt(rerankPrompt(body))
    return unshaped(call, { results: [{ index: 0, relevance_score: 0.5 }] })
  }
  if (path === '/embeddings') {
    account.addPrompt(inputPrompt(body['input']))
    return unshaped(call, { data: [{ object: 'embedding', index: 0, embedding: [0.5] }] })
  }
  account.addPrompt(call.isChat ? chatPrompt(body) : inputPrompt(body['prompt']))
  await (body['stream'] === true ? stream(call) : whole(call))
}

/** A prompt that was read has its full cost, even when the client has left meanwhile. */
async function unshaped({ res, mode, account, body }: Call, fields: Json): Promise<void> {
  const usage = { prompt_tokens: account.prompt, total_tokens: account.prompt }
  const reported = mode.usage === 'never' ? {} : { usage }
  account.isMade()
  await pause(80)
  res.setHeader('content-type', 'application/json')
  res.end(JSON.stringify({ object: 'list', model: body['model'], ...fields, ...reported }))
}

/** Lowers all keys at every depth; of equal keys the last one wins. */
function withGoKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withGoKeys)
  if (typeof value !== 'object' || value === null) return value
  const lowered = Object.entries(value).map(([name, one]) => [name.toLowerCase(), withGoKeys(one)])
  return Object.fromEntries(lowered) as Json
}

const promptsIn = (prompt: unknown): number =>
  Array.isArray(prompt) && typeof prompt[0] !== 'number' ? prompt.length : 1

const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' ? value : undefined
