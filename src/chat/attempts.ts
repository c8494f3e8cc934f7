// Begins a generation, with its clocks, and asks its targets one after the other, until one has an answer or no other may
// be asked. A refusal that is relayed ends the generation here. Another target is asked only while nothing has gone out to
// the client, and nothing has been generated that is charged. The last attempt decides the error. The hold, the time-out of
// the whole and the request's body are the generation's; the request, the meter and the clock of the first content are made
// anew for each attempt.

import { forward } from '../backend/forward.ts'
import type { BackendAnswer } from '../backend/forward.ts'
import { clientHeaders } from '../backend/request-headers.ts'
import { Meter } from '../backend/usage.ts'
import type { Seat } from '../backend/targets.ts'
import type { Target } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { Answer, BackendRequest, Exchange } from '../exchange.ts'
import type { StopReason } from '../ledger/hold.ts'
import { countText } from '../tokens/count-pieces.ts'
import { errorBodyBytes, isForAnother, isTimeout, relayedRefusal } from './backend-status.ts'
import { saidIn, statusOfError, verdictOn } from './backend-status.ts'
import { Deadline } from './deadline.ts'
import { finishesAlone, judge, outcome } from './generating.ts'
import type { Generation, GenerationOptions } from './generating.ts'
import { Relay } from './relay.ts'
import type { ChatRequest } from './request.ts'

export function begin(x: Exchange, options: GenerationOptions): Generation {
  const { run, request, limits, targets, grammar, heartbeatMs } = options
  const { model, row, stream } = request
  const { generates } = row
  const deadline = new Deadline({ timeouts: model.timeouts, parent: x.signal, generates, stream })
  x.finishesAlone = finishesAlone(request)
  const target = firstTarget(request)
  // The others by name: a spread that does not come first takes longer.
  const generation: Generation = {
    ...nothingYet,
    run,
    request,
    limits,
    targets,
    grammar,
    heartbeatMs,
    x,
    deadline,
    candidates: targets.candidatesFor(model, x.caller?.ref ?? ''),
    isCommitted: false,
    cancelled: undefined,
    target,
    meter: meterOf({ x, request }, target),
  }
  // Named first: V8 would allocate a function that is written directly behind `x.stop =` in its old space, and there it
  // would keep the exchange alive.
  const stopThis: Exchange['stop'] = (reason) => stop(generation, reason)
  const pauseThis: Exchange['pause'] = (until) => generation.relay?.pause(until)
  x.stop = stopThis
  x.pause = pauseThis
  // Between the hold and this line, a message's files may have been read for seconds.
  if (x.stopped) stopThis(x.stopped)
  return generation
}

function stop({ relay, deadline }: Generation, reason: StopReason): void {
  if (relay) relay.stop(reason)
  else deadline.cancel(new GatewayError(reason === 'lost' ? 'ledger_unavailable' : reason))
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

/** What `use` throws is the failure of the attempt. */
export async function attempts<T>(
  generation: Generation,
  use: (backend: BackendAnswer) => Promise<T>,
): Promise<T> {
  let seat = generation.candidates.next() ?? (await waited(generation))
  for (;;) {
    prepare(generation, seat)
    try {
      return await use(await ask(generation, seat))
    } catch (thrown) {
      judge(seat, verdictOn(thrown))
      const another = mayGoOn(generation, thrown) ? await following(generation, seat) : undefined
      if (!another) throw thrown
      dropAttempt(generation, thrown)
      seat = another
    }
  }
}

/** A seat, once there is room. No target is being asked, and nothing of an earlier attempt counts: a client that leaves meanwhile pays nothing, and not even a generation that finishes alone is begun for it. */
async function waited({ x, candidates, deadline }: Generation): Promise<Seat> {
  deadline.waiting()
  const { signal } = deadline
  return await candidates.wait(x.route.abortOnLeave ? AbortSignal.any([signal, x.left]) : signal)
}

/** A seat after a failed attempt; undefined when no other target can be asked. */
async function following(generation: Generation, before: Seat): Promise<Seat | undefined> {
  const { backend, candidates } = generation
  // A backend may answer before it has read the request. What is still to be sent are views of the body, whose memory
  // is freed once another target has it: nobody may read it then.
  backend?.abort()
  const seat = candidates.next(before)
  if (seat) return seat
  // From here on nothing of the attempt counts: who leaves while it waits pays nothing.
  generation.sentAtMs = 0
  generation.relay = undefined
  const later = await waited(generation).catch(() => undefined)
  if (!later || mayStillAsk(generation)) return later
  later.release()
  return undefined
}

/** Whether another target may be asked, if this one fails now. */
export function mayTryAnother(generation: Generation): boolean {
  return generation.candidates.hasMore && mayStillAsk(generation)
}

function mayStillAsk({ isCommitted, cancelled, deadline }: Generation): boolean {
  return !isCommitted && !cancelled && !deadline.isOver
}

/** A generation begins with a meter for its model's first target; another target that is asked first gets its own. */
function firstTarget({ model }: ChatRequest): Target {
  const [target] = model.targets
  if (!target) throw new Error(`model ${model.id} has no target`)
  return target
}

/** What an attempt has before its target has answered. */
const nothingYet = { backend: undefined, seat: undefined, sentAtMs: 0, relay: undefined }

function prepare(generation: Generation, { target }: Seat): void {
  const { x, deadline, candidates } = generation
  deadline.asking()
  x.facts.target = target.name
  // Only models with several targets have attempts in their log line.
  if (candidates.hasMore || x.facts.failed) x.facts.askedMs = performance.now() - x.arrivedAt
  const isUnused = x.meter === undefined && generation.target === target
  if (!isUnused) generation.meter = meterOf(generation, target)
  generation.target = target
  x.meter = generation.meter
}

type Asking = Pick<Generation, 'x' | 'request'>

function meterOf({ x, request }: Asking, target: Target): Meter {
  return new Meter({
    ...request.expected(x.grantedPerChoice),
    completeWhen: request.model.completeWhen,
    count: countText,
    isContinuous: target.continuousUsage,
    alarm: x.alarm,
  })
}

async function ask(generation: Generation, seat: Seat): Promise<BackendAnswer> {
  const { x, run, request, target, deadline } = generation
  try {
    const backendRequest: BackendRequest = {
      path: request.row.path,
      headers: clientHeaders(request.model, x.headers),
      body: request.bodyFor(target, x),
    }
    run.upstream(backendRequest)
    const onSent = () => {
      generation.sentAtMs = performance.now()
      x.facts.overheadMs ??= generation.sentAtMs - x.arrivedAt
    }
    const { signal } = deadline
    const backend = await forward({
      target,
      model: request.model,
      request: backendRequest,
      signal,
      onSent,
    })
    generation.backend = backend
    generation.seat = seat
    void backend.ended.then(() => giveBack(seat))
    return backend
  } catch (thrown) {
    giveBack(seat)
    throw thrown
  }
}

/** In the next turn: by then a failure is judged, so that no waiting request goes to the target that has just failed. */
function giveBack(seat: Seat): void {
  setImmediate(() => seat.release())
}

function mayGoOn(generation: Generation, thrown: unknown): boolean {
  if (!mayTryAnother(generation) || generation.meter.sawContent) return false
  const { x, request } = generation
  // The client has left: nobody waits for another target. A message of a session goes on without readers, too.
  if (x.route.abortOnLeave && x.left.aborted) return false
  return isForAnother(thrown) || (isTimeout(thrown) && request.model.retryOnTimeout)
}

/** Notes the failed attempt, and drops all that belongs to it. */
function dropAttempt(generation: Generation, thrown: unknown): void {
  const { x, target, grammar } = generation
  const { facts } = x
  const ms = performance.now() - x.arrivedAt - (facts.askedMs ?? 0)
  const isOurs = thrown instanceof GatewayError
  const outcome = isOurs ? thrown.code : 'internal_error'
  const said = isOurs ? saidIn(thrown) : undefined
  facts.failed = [...(facts.failed ?? []), { target: target.name, outcome, ms, said }]
  grammar.restart?.()
  Object.assign(generation, nothingYet)
}

/** Returns the backend's own refusal when it may be relayed; else throws. */
export async function refused(generation: Generation, backend: BackendAnswer): Promise<Answer> {
  const { status, headers } = backend
  return await relayed(generation, { status, headers, body: await readErrorBody(backend) })
}

/** The same for an error that came after a 200. */
export function refusedIn(generation: Generation, data: string): Promise<Answer> {
  const body = Buffer.from(data, 'latin1')
  return relayed(generation, { status: statusOfError(data), headers: {}, body })
}

interface ErrorAnswer extends Pick<BackendAnswer, 'status' | 'headers'> {
  readonly body: Buffer | undefined
}

async function relayed(
  generation: Generation,
  { status, headers, body }: ErrorAnswer,
): Promise<Answer> {
  const { target, request, deadline, seat, run } = generation
  const { generates } = request.row
  const answer = relayedRefusal(status, headers, { body, target, generates })
  deadline.stop()
  seat?.refused()
  await run.finish({ ...outcome(generation, status), complete: false })
  return answer
}

/** How long the body of an error is waited for. */
const errorBodyMs = 2000

/** Resolves with undefined when the body is too large, was cut off or took too long: then the status alone decides. */
async function readErrorBody({ stream, ended }: BackendAnswer): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  stream.on('error', () => undefined)
  stream.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= errorBodyBytes) chunks.push(chunk)
    else stream.destroy()
  })
  const patience = setTimeout(() => stream.destroy(), errorBodyMs)
  const how = await ended
  clearTimeout(patience)
  return how === 'cut' || bytes > errorBodyBytes ? undefined : Buffer.concat(chunks, bytes)
}
