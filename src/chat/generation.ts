// One generation: asks a target, and hands its answer on, whole or as a stream. Owns the backend request and its
// clocks. However a generation ends, `run.finish` is called once, before the last byte goes out.

import { forward } from '../backend/forward.ts'
import type { BackendAnswer } from '../backend/outgoing-request.ts'
import { clientHeaders } from '../backend/request-headers.ts'
import { chooseTarget } from '../backend/targets.ts'
import { Meter } from '../backend/usage.ts'
import { asGatewayError, errorBody, GatewayError } from '../errors.ts'
import type { Answer, BackendRequest, Exchange } from '../exchange.ts'
import { ClientLeft } from '../http/body.ts'
import { heartbeat, sseHeaders } from '../http/sse.ts'
import type { StreamOut } from '../http/client-stream.ts'
import type { StopReason } from '../ledger/hold.ts'
import { countText } from '../tokens/count-pieces.ts'
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
  { run, request, limits }: Pick<GenerationOptions, 'run' | 'request' | 'limits'>,
): Promise<Answer> {
  const { heartbeatMs } = limits
  const generation = begin(x, { run, request, limits, grammar: plainGrammar, heartbeatMs })
  try {
    return request.stream ? await streamed(generation) : await whole(generation)
  } catch (thrown) {
    throw await givenUp(generation, thrown)
  }
}

/** Asks the backend, and resolves with its stream when the first content has come, or when `until` has resolved. Resolves with a refusal when an error came first. */
export async function openRelay(
  generation: Generation,
  until: Promise<unknown>,
): Promise<Relay | Answer> {
  const backend = await ask(generation)
  if (backend.status !== 200) return await refused(generation, backend)
  const relay = (generation.relay = new Relay(generation, backend))
  const opened = relay.opened()
  // When `until` came first, the opening may still fail: the relay's pump then reports the failure.
  opened.catch(() => undefined)
  const errorData = await Promise.race([opened, until.then(() => undefined)])
  return errorData === undefined ? relay : await refusedIn(generation, errorData)
}

export function begin(x: Exchange, options: GenerationOptions): Generation {
  const { model, choices, tries, echoed, row, stream } = options.request
  const target = chooseTarget(model)
  const { outputPerChoice } = x.granted ?? options.request
  const meter = new Meter({
    completeWhen: model.completeWhen,
    choices,
    tries,
    count: countText,
    outputPerChoice,
    echoed,
    isContinuous: target.continuousUsage,
  })
  x.meter = meter
  x.facts.target = target.name
  const { timeouts } = model
  const { generates } = row
  const deadline = new Deadline({ timeouts, parent: x.signal, generates, stream })
  x.finishesAlone = finishesAlone(options.request)
  const generation: Generation = {
    ...options,
    x,
    target,
    meter,
    deadline,
    outputPerChoice,
    sentAtMs: 0,
    finishesAlone: x.finishesAlone,
    isCommitted: false,
    relay: undefined,
    cancelled: undefined,
  }
  x.stop = (reason) => stop(generation, reason)
  return generation
}

function stop({ relay, deadline }: Generation, reason: StopReason): void {
  if (relay) relay.stop(reason)
  else deadline.cancel(new GatewayError(reason === 'lost' ? 'ledger_unavailable' : reason))
}

function ask(generation: Generation): Promise<BackendAnswer> {
  const { x, run, request, target, deadline } = generation
  const { outputPerChoice } = generation
  const body = request.bodyFor(target, { outputPerChoice, ref: x.caller?.ref ?? '' })
  const backendRequest: BackendRequest = {
    path: request.row.path,
    headers: clientHeaders(request.model, x.headers),
    body,
  }
  run.upstream(backendRequest)
  const onSent = () => {
    generation.sentAtMs = performance.now()
    x.facts.overheadMs = generation.sentAtMs - x.arrivedAt
  }
  const { signal } = deadline
  return forward({ target, model: request.model, request: backendRequest, signal, onSent })
}

/** Returns the backend's own refusal when it may be relayed; else throws. */
async function refused(generation: Generation, backend: BackendAnswer): Promise<Answer> {
  const { target } = generation
  const { status, headers } = backend
  const body = await readBounded(backend, errorBodyBytes).catch(() => undefined)
  return await relayed(generation, relayedRefusal(status, headers, { body, target }))
}

/** The same for an error that came after a 200. */
async function refusedIn(generation: Generation, data: string): Promise<Answer> {
  const body = Buffer.from(data, 'latin1')
  const { target } = generation
  return await relayed(generation, relayedRefusal(statusOfError(data), {}, { body, target }))
}

async function relayed(generation: Generation, answer: Answer): Promise<Answer> {
  generation.deadline.stop()
  await generation.run.finish({ ...outcome(generation, answer.status), complete: false })
  return answer
}

async function streamed(generation: Generation): Promise<Answer> {
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), generation.limits.firstByteMs)
  const opening = openRelay(generation, late.promise)
  try {
    const opened = await Promise.race([opening, late.promise])
    // `openRelay` waits until `late` only for content; here the backend has not even answered its status by then.
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
async function whole(generation: Generation): Promise<Answer> {
  const { run, deadline } = generation
  const backend = await ask(generation)
  if (backend.status !== 200) return await refused(generation, backend)
  forgetBody(generation, backend)
  const body = await readAnswer(generation, backend)
  if (!Buffer.isBuffer(body)) return body
  const event = { event: undefined, data: body.toString('latin1') }
  // A plugin may change the data.
  run.event?.(event)
  generation.x.facts.firstTokenMs = performance.now() - generation.sentAtMs
  deadline.stop()
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
  const how = await ended
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
