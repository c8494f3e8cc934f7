// The life of a request, one function: check → body (vouch) → identify → admit → serve → done; when `identify` has
// answered: answered → done.
// The calls of a phase start together and are all awaited. An error that a call throws synchronously wins, else the first
// answer or refusal in plugin order. Each plugin releases in `done` what it took. The exchange ends when its work ends, not
// when its client leaves.

import { asGatewayError, GatewayError } from './errors.ts'
import type { Answer, Exchange, Hooks, Outcome, Route, Run, SseEvent } from './exchange.ts'
import { ClientLeft } from './http/body.ts'
import { refuseStrangeQuery } from './http/refusals.ts'
import { within } from './sharing/patience.ts'

/** What the lifecycle of an exchange needs of HTTP. */
export interface Wire {
  /** Reads the body of the exchange; calls `vouch` before it takes more than 4 KiB. A larger body is parsed here, too, in turns with those of other accounts; a smaller one by its route. */
  readBody(route: Route, vouch: () => Promise<void>): Promise<void>
  send(answer: Answer): Promise<void>
  sendError(error: GatewayError): Promise<void>
  /** The client closed before the answer was complete. */
  readonly left: boolean
}

/** A plugin's hooks under its name, for the log. */
export interface NamedHooks extends Hooks {
  readonly plugin: string
}

/** Called when a plugin's `begin`, `refuse` or `done` failed. The other plugins still settle. */
export type HookFailure = (plugin: string, error: unknown) => void

export interface Life {
  /** The hooks of the plugins and of the route, in the order in which they run. */
  readonly hooks: readonly NamedHooks[]
  serve(run: Run): Promise<Answer>
  readonly onHookFailure: HookFailure
}

export async function live(x: Exchange, wire: Wire, life: Life): Promise<void> {
  const { hooks, onHookFailure } = life
  const run = createRun(x, hooks, onHookFailure)
  try {
    for (const hook of hooks) mustNotWait(hook.check?.(), hook.plugin, 'check')
    refuseStrangeQuery(x.query, x.route)
    if (x.route.body === 'json') {
      const vouch = async () => {
        await together(hooks, 'vouch')
      }
      await wire.readBody(x.route, vouch)
    }
    const identifying = together(hooks, 'identify')
    let answer = identifying && (await identifying)
    if (answer) {
      const answering = together(hooks, 'answered')
      if (answering) await answering
    } else {
      const admitting = together(hooks, 'admit')
      if (admitting) await admitting
      answer = await life.serve(run)
    }
    // An answer with a body is sent as one piece, and finished before it is sent. A download or an event stream has none and
    // is written as it comes: it is finished only when the client has taken all of it. A generation calls `run.finish`
    // itself before its last byte, with its own outcome: then these calls do nothing.
    const isWhole = 'body' in answer
    if (isWhole) await run.finish(plainOutcome(answer.status, wire.left))
    await wire.send(answer)
    if (!isWhole && !wire.left) await run.finish(plainOutcome(answer.status, false))
  } catch (thrown) {
    // The exchange is not settled before its generation ends, even if its answer was cut off.
    if (x.work) await x.work
    if (thrown instanceof ClientLeft) return
    const error = refusal(asGatewayError(thrown), life)
    const status = wire.left ? 499 : error.status
    await run.finish({ ...plainOutcome(status, wire.left), error, complete: false })
    await wire.sendError(error)
  } finally {
    // `finish` must run in every case, because it settles. If it has not run by now, the client has left.
    await run.finish({ ...plainOutcome(499, true), complete: false })
  }
}

function plainOutcome(status: number, clientLeft: boolean): Outcome {
  return { status, clientLeft, backendAsked: false, complete: true, cut: false }
}

/**
 * Throws if a hook that must not wait has returned a promise: nobody would await it, so a check would refuse nobody, and
 * a rejection would end the process.
 */
export function mustNotWait(returned: unknown, plugin: string, hook: string): void {
  if (typeof returned !== 'object' || returned === null || !('then' in returned)) return
  Promise.resolve(returned).catch(() => undefined)
  throw new TypeError(`${plugin}: ${hook} must not be async`)
}

/** The error that the client gets: a plugin may replace it, for instance by 429 after too many wrong keys. */
function refusal(error: GatewayError, { hooks, onHookFailure }: Life): GatewayError {
  for (const hook of hooks) {
    try {
      const other: unknown = hook.refuse?.(error)
      mustNotWait(other, hook.plugin, 'refuse')
      if (other instanceof GatewayError) error = other
    } catch (thrown) {
      if (thrown instanceof GatewayError) error = thrown
      else onHookFailure(hook.plugin, thrown)
    }
  }
  return error
}

type Phase = 'vouch' | 'identify' | 'answered' | 'admit'

/**
 * Starts all calls of a phase in one tick, awaits all, and gives the first answer or refusal in plugin order: after a
 * replay, what later plugins say does not matter. An error that a call throws at once comes before all others, because it
 * needed no reply from Redis: an invalid body is reported before an unauthorised key. Returns undefined when no call is
 * awaited.
 */
function together(hooks: readonly NamedHooks[], phase: Phase): Promise<Answer | void> | undefined {
  const calls: Promise<Answer | void>[] = []
  const thrownAtOnce: unknown[] = []
  for (const hook of hooks) {
    try {
      const started = hook[phase]?.()
      if (started) calls.push(started)
    } catch (error) {
      thrownAtOnce.push(error)
    }
  }
  if (thrownAtOnce.length > 0) return refusedAtOnce(thrownAtOnce[0], calls)
  // In most requests, at most one call is awaited. For these, allSettled would only take time.
  return calls.length > 1 ? firstAnswer(calls) : calls[0]
}

/** Awaits the other calls before it throws: a plugin knows what it has to release only when its call is answered. */
async function refusedAtOnce(error: unknown, calls: readonly unknown[]): Promise<never> {
  await Promise.allSettled(calls)
  throw error
}

async function firstAnswer(calls: readonly Promise<Answer | void>[]): Promise<Answer | void> {
  for (const one of await Promise.allSettled(calls)) {
    if (one.status === 'rejected') throw one.reason
    if (one.value) return one.value
  }
  return undefined
}

function createRun(x: Exchange, hooks: readonly NamedHooks[], onHookFailure: HookFailure): Run {
  let finished: Promise<void> | undefined
  let isFinished = false
  const toAll = (event: SseEvent) => {
    for (const hook of hooks) mustNotWait(hook.event?.(event), hook.plugin, 'event')
  }
  return {
    event: hooks.some((hook) => hook.event) ? toAll : undefined,
    upstream(request) {
      for (const hook of hooks) {
        mustNotWait(hook.upstream?.(request), hook.plugin, 'upstream')
      }
    },
    finish(outcome) {
      if (isFinished) return finished
      isFinished = true
      const done = callDoneFrom(hooks.length - 1, { hooks, outcome, onHookFailure })
      // The caller writes the last bytes after this: a client must not read them before the settlement is sent.
      finished = done ? done.then(() => x.written) : x.written
      return finished
    },
  }
}

/** After this time, a `done` is no longer awaited, unless its hooks say that it ends by itself (`doneEnds`). */
const doneMs = 10_000

interface Finishing {
  readonly hooks: readonly NamedHooks[]
  readonly outcome: Outcome
  readonly onHookFailure: HookFailure
}

/** Calls `done` of each plugin, the last one first, one after the other. Returns undefined when none has to be awaited. */
function callDoneFrom(last: number, finishing: Finishing): Promise<void> | undefined {
  for (let at = last; at >= 0; at--) {
    const hook = finishing.hooks[at]
    const done = hook && callDone(hook, finishing)
    // The plugins before this one are called when this one is done.
    if (done) return done.then(() => callDoneFrom(at - 1, finishing))
  }
  return undefined
}

function callDone(
  hook: NamedHooks,
  { outcome, onHookFailure }: Finishing,
): Promise<void> | undefined {
  const failed = (error: unknown) => onHookFailure(hook.plugin, error)
  try {
    const done = hook.done?.(outcome)
    if (!done) return undefined
    return (hook.doneEnds ? done : within(done, doneMs, 'done')).catch(failed)
  } catch (error) {
    failed(error)
    return undefined
  }
}
