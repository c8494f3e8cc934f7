// One generation: hands the answer of a target on, whole or as a stream (attempts.ts asks the targets). Owns the clocks.
// However a generation ends, `run.finish` is called once, before the last byte goes out.

import type { BackendAnswer } from '../backend/outgoing-request.ts'
import { asGatewayError, errorBody, GatewayError } from '../errors.ts'
import type { Answer, Exchange } from '../exchange.ts'
import { ClientLeft } from '../http/body.ts'
import { heartbeat, sseHeaders } from '../http/sse.ts'
import type { StreamOut } from '../http/client-stream.ts'
import type { StopReason } from '../ledger/hold.ts'
import { attempts, emptyAttempt, mayTryAnother } from './attempts.ts'
import { errorBodyBytes, isErrorBody, relayedRefusal, statusOfError } from './backend-status.ts'
import { Deadline } from './deadline.ts'
import { latin1, linesOf, plainGrammar } from './frames.ts'
import { finishesAlone, forgetBody, givenUp, outcome } from './generating.ts'
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

/** Asks targets, and resolves with the stream of one when its first content has come, or when `until` has resolved. Resolves with a refusal when an error came first. */
export function openRelay(
  generation: Generation,
  until: Promise<unknown>,
): Promise<Relay | Answer> {
  const open = async (backend: BackendAnswer) => {
    if (backend.status !== 200) return await refused(generation, backend)
    const relay = (generation.relay = new Relay(generation, backend))
    const opened = relay.opened()
    // When `until` came first, the opening may still fail: the relay's pump then reports the failure.
    opened.catch(() => undefined)
    const errorData = await Promise.race([opened, until.then(() => undefined)])
    return errorData === undefined ? relay : await refusedIn(generation, errorData)
  }
  return attempts(generation, open)
}

export function begin(x: Exchange, options: GenerationOptions): Generation {
  const { request, targets } = options
  const { model, row, stream } = request
  const { generates } = row
  const deadline = new Deadline({ timeouts: model.timeouts, parent: x.signal, generates, stream })
  x.finishesAlone = finishesAlone(request)
  const generation: Generation = {
    ...options,
    x,
    deadline,
    candidates: targets.candidatesFor(model, x.caller?.ref ?? ''),
    finishesAlone: x.finishesAlone,
    isCommitted: false,
    cancelled: undefined,
    ...emptyAttempt(x, request),
  }
  // No function is written behind `x.… =`: V8 makes such a function in the old generation, where it keeps the exchange alive.
  const stopThis: Exchange['stop'] = (reason) => stop(generation, reason)
  const pauseThis: Exchange['pause'] = (until) => generation.relay?.pause(until)
  x.stop = stopThis
  x.pause = pauseThis
  return generation
}

function stop({ relay, deadline }: Generation, reason: StopReason): void {
  if (relay) relay.stop(reason)
  else deadline.cancel(new GatewayError(reason === 'lost' ? 'ledger_unavailable' : reason))
}

/** Returns the backend's own refusal when it may be relayed; else throws. */
async function refused(generation: Generation, backend: BackendAnswer): Promise<Answer> {
  const { target, request } = generation
  const { generates } = request.row
  const { status, headers } = backend
  const body = await readBounded(backend, errorBodyBytes).catch(() => undefined)
  return await relayed(generation, relayedRefusal(status, headers, { body, target, generates }))
}

/** The same for an error that came after a 200. */
async function refusedIn(generation: Generation, data: string): Promise<Answer> {
  const body = Buffer.from(data, 'latin1')
  const { target, request } = generation
  const { generates } = request.row
  const status = statusOfError(data)
  return await relayed(generation, relayedRefusal(status, {}, { body, target, generates }))
}

async function relayed(generation: Generation, answer: Answer): Promise<Answer> {
  generation.deadline.stop()
  generation.seat?.refused()
  await generation.run.finish({ ...outcome(generation, answer.status), complete: false })
  return answer
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
  const body = await readAnswer(generation, backend)
  if (!Buffer.isBuffer(body)) return body
  const event = { event: undefined, data: body.toString('latin1') }
  // A plugin may change the data.
  run.event?.(event)
  generation.x.facts.firstTokenMs = performance.now() - generation.sentAtMs
  deadline.stop()
  generation.seat?.succeeded()
  await run.finish(outcome(generation, 200))
  const headers = { ...passedHeaders(backend), 'Content-Type': 'application/json' }
  return { status: 200, headers, body: run.event ? Buffer.from(event.data, 'latin1') : body }
}

/** What was generated is charged even if nobody gets it, because the answer is too large or the client has left. */
async function readAnswer(
  generation: Generation,
  backend: BackendAnswer,
): Promise<Buffer | Answer> {
  const { limits, meter, deadline } = generation
  const answer = await readWhole(backend, limits.answerBytes)
  if (answer.isTooLarge) {
    meter.refused(answer.refused())
    const cause = new Error(`an answer of more than ${limits.answerBytes} bytes`)
    throw new GatewayError('upstream_error', { source: 'backend', cause, retry: false })
  }
  if (answer.how === 'cut') {
    if (deadline.signal.reason instanceof ClientLeft) meter.refused(answer.refused())
    throw new GatewayError('upstream_incomplete', { source: 'backend' })
  }
  if (await meter.json(answer.body)) return answer.body
  meter.refused(answer.refused())
  const data = answer.body.toString('latin1', 0, errorBodyBytes + 1)
  if (!meter.sawContent && isErrorBody(data)) return await refusedIn(generation, data)
  // No retry after content: the content is charged, and another try would be charged again.
  throw new GatewayError('upstream_error', { source: 'backend', retry: !meter.sawContent })
}

/** So long the body of an error is waited for: then its status has to do. */
const errorBodyMs = 2000

/** Reads the body of an error. */
async function readBounded({ stream, ended }: BackendAnswer, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let bytes = 0
  stream.on('error', () => undefined)
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= maxBytes) chunks.push(chunk)
    else stream.destroy()
  })
  const patience = setTimeout(() => stream.destroy(), errorBodyMs)
  const how = await ended
  clearTimeout(patience)
  if (how === 'cut' || bytes > maxBytes) throw new GatewayError('upstream_error')
  return Buffer.concat(chunks, bytes)
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
    const beating = heartbeatMs && setInterval(() => void out.write(heartbeat), heartbeatMs)
    const opened = await opening.catch((thrown: unknown) => failure(generation, thrown))
    clearInterval(beating)
    out.write(typeof opened === 'string' ? opened : await restOf(generation, { opened, out }))
  }
  return { status: 200, headers: sseHeaders, stream }
}

async function restOf(
  { grammar }: Generation,
  { opened, out }: { readonly opened: Relay | Answer; readonly out: StreamOut },
): Promise<string> {
  if ('pump' in opened) return (await opened.pump(out)).frames
  const body = 'body' in opened ? opened.body : ''
  return grammar.frame({ event: undefined, data: linesOf(body) })
}

async function failure(generation: Generation, thrown: unknown): Promise<string> {
  const error = asGatewayError(await givenUp(generation, thrown))
  const data = latin1(errorBody(error, generation.x.id))
  return generation.grammar.frame({ event: undefined, data })
}
