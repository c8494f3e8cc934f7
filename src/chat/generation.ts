// A generation for one client of `/v1`: hands the answer of a target on, whole or as a stream (attempts.ts asks the targets).
// However a generation ends, `run.finish` is called once, before the last byte goes out.

import type { BackendAnswer } from '../backend/forward.ts'
import { asGatewayError, errorBody, GatewayError } from '../errors.ts'
import type { Answer, Exchange } from '../exchange.ts'
import { ClientLeft } from '../http/body.ts'
import { beating, heartbeat, sseHeaders } from '../http/sse.ts'
import type { StreamOut } from '../http/client-stream.ts'
import { attempts, begin, mayTryAnother, openRelay, refused, refusedIn } from './attempts.ts'
import { errorBodyBytes, isErrorBody } from './backend-status.ts'
import { latin1, linesOf, plainGrammar } from './frames.ts'
import { forgetBody, givenUp, outcome } from './generating.ts'
import type { Generation, GenerationOptions } from './generating.ts'
import { Relay } from './relay.ts'
import { readWhole } from './whole-answer.ts'

/** Generates for one client, who gets the backend's answer as it comes. */
export async function generate(
  x: Exchange,
  options: Omit<GenerationOptions, 'grammar' | 'heartbeatMs'>,
): Promise<Answer> {
  const { request, limits } = options
  const { heartbeatMs } = limits
  const generation = begin(x, { ...options, grammar: plainGrammar, heartbeatMs })
  try {
    return request.stream ? await streamed(generation) : await whole(generation)
  } catch (thrown) {
    throw await givenUp(generation, thrown)
  }
}

async function streamed(generation: Generation): Promise<Answer> {
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), generation.limits.firstByteMs)
  const opening = openRelay(generation, late.promise)
  try {
    const opened = await Promise.race([opening, late.promise])
    // Undefined when the backend has not even sent its status in time. Once it has, `openRelay` itself ends at `late`.
    if (!opened) return committed(generation, opening)
    if (!(opened instanceof Relay)) return opened
    // A stream's clocks run until its relay ends.
    const stream = async (out: StreamOut) => void out.write((await opened.pump(out)).frames)
    return { status: 200, headers: { ...sseHeaders, ...passedHeaders(opened.backend) }, stream }
  } finally {
    clearTimeout(timer)
  }
}

/** The status goes out only when the whole answer is here, so it can always say what went wrong. */
function whole(generation: Generation): Promise<Answer> {
  return attempts(generation, (backend) => wholeOf(generation, backend))
}

async function wholeOf(generation: Generation, backend: BackendAnswer): Promise<Answer> {
  const { run, deadline } = generation
  if (backend.status !== 200) return await refused(generation, backend)
  if (!mayTryAnother(generation)) forgetBody(generation, backend)
  const answer = await readAnswer(generation, backend)
  if (typeof answer !== 'string') return answer
  const event = { event: undefined, data: answer }
  // A plugin may change the data.
  run.event?.(event)
  generation.x.facts.firstTokenMs = performance.now() - generation.sentAtMs
  deadline.stop()
  generation.seat?.succeeded()
  await run.finish(outcome(generation, 200))
  const headers = { ...passedHeaders(backend), 'Content-Type': 'application/json' }
  return { status: 200, headers, body: event.data, encoding: 'latin1' }
}

/** Resolves with the answer, latin1. What was generated is charged even if nobody gets it, because the answer is too large or the client has left. */
async function readAnswer(
  generation: Generation,
  backend: BackendAnswer,
): Promise<string | Answer> {
  const { limits, meter, deadline } = generation
  const answer = await readWhole(backend, limits.answerBytes)
  if (answer.isTooLarge) {
    meter.wasted(answer.wasted())
    const cause = new Error(`an answer of more than ${limits.answerBytes} bytes`)
    throw new GatewayError('upstream_error', { source: 'backend', cause, retry: false })
  }
  if (answer.how === 'cut') {
    if (deadline.signal.reason instanceof ClientLeft) meter.wasted(answer.wasted())
    throw new GatewayError('upstream_incomplete', { source: 'backend' })
  }
  const data = answer.body.toString('latin1')
  if (await meter.json(data)) return data
  meter.wasted(answer.wasted())
  const head = data.slice(0, errorBodyBytes + 1)
  if (!meter.sawContent && isErrorBody(head)) return await refusedIn(generation, head)
  // No retry after content: the content is charged, and another try would be charged again.
  throw new GatewayError('upstream_error', { source: 'backend', retry: !meter.sawContent })
}

const passed = ['content-language', 'openai-processing-ms', 'openai-version'] as const

function passedHeaders({ headers }: BackendAnswer): Record<string, string> {
  const out: Record<string, string> = {}
  for (const name of passed) {
    const value = headers[name]
    if (typeof value === 'string') out[name] = value
  }
  return out
}

/**
 * A stream whose 200 goes out before its backend has answered: the client gets heartbeats while the backend queues the
 * request, and an error that would have been a status is the stream's last event. No other target is asked any more.
 * `opening` is the stream to come, or the refusal in its place.
 */
function committed(generation: Generation, opening: Promise<Relay | Answer>): Answer {
  generation.isCommitted = true
  const stream = async (out: StreamOut) => {
    const { heartbeatMs } = generation
    const beats = heartbeatMs ? beating(() => out.write(heartbeat), heartbeatMs) : undefined
    const opened = await opening.catch((thrown: unknown) => failure(generation, thrown))
    beats?.clear()
    if (opened instanceof Relay) return void out.write((await opened.pump(out)).frames)
    const data = typeof opened === 'string' ? opened : linesOf('body' in opened ? opened.body : '')
    out.write(generation.grammar.frame({ event: undefined, data }))
  }
  return { status: 200, headers: sseHeaders, stream }
}

async function failure(generation: Generation, thrown: unknown): Promise<string> {
  const error = asGatewayError(await givenUp(generation, thrown))
  return latin1(errorBody(error, generation.x.id))
}
