// The life of a request, one function: check → body → identify → admit → serve → done.
// The calls of a phase start together and are all awaited; the first refusal in plugin order is the answer, and
// whoever granted something lets go of it in `done`. It ends when its work ends, not when its client leaves.

import { asGatewayError } from './errors.ts'
import type { GatewayError } from './errors.ts'
import type { Answer, Exchange, Outcome, Route, Run, SseEvent } from './exchange.ts'
import { ClientLeft } from './http/body.ts'
import { refuseStrangeQuery } from './http/refusals.ts'
import type { Hooks } from './plugin.ts'

/** The wire under an exchange: what lifecycle needs of HTTP. */
export interface Wire {
  /** Reads the body; calls `vouch` before it takes more than 4 KiB. What is larger is parsed, too. */
  readBody(route: Route, vouch: () => Promise<void>): Promise<Buffer>
  send(answer: Answer): Promise<void>
  sendError(error: GatewayError): Promise<void>
  /** The client closed before the answer was complete. */
  readonly left: boolean
}

/** A plugin's hooks under its name, for the log. */
export interface NamedHooks extends Hooks {
  readonly plugin: string
}

/** Told of a `done` that failed: it keeps nobody from settling. */
export type HookFailure = (plugin: string, error: unknown) => void

export async function live(
  x: Exchange,
  wire: Wire,
  hooks: readonly NamedHooks[],
  onHookFailure: HookFailure,
): Promise<void> {
  const run = createRun(x, hooks, onHookFailure)
  try {
    for (const hook of hooks) hook.check?.()
    refuseStrangeQuery(x.query, x.route)
    if (x.route.body === 'json') {
      x.body = await wire.readBody(x.route, async () => void (await together(hooks, 'vouch')))
    }
    const identifying = together(hooks, 'identify')
    let answer = identifying && (await identifying)
    if (!answer) {
      const admitting = together(hooks, 'admit')
      if (admitting) await admitting
      answer = await x.route.serve(x, run)
    }
    if ('body' in answer) await run.finish(plainOutcome(answer.status, wire.left))
    await wire.send(answer)
    // A file was sent when it was taken.
    if ('content' in answer && !wire.left) await run.finish(plainOutcome(answer.status, false))
  } catch (thrown) {
    if (x.work) await x.work
    if (thrown instanceof ClientLeft) return
    const error = refusal(hooks, asGatewayError(thrown))
    const status = wire.left ? 499 : error.status
    await run.finish({ ...plainOutcome(status, wire.left), error, complete: false })
    await wire.sendError(error)
  } finally {
    // Whatever happened, somebody settles. What is not finished by now was left by its client.
    await run.finish({ ...plainOutcome(499, true), complete: false })
  }
}

function plainOutcome(status: number, clientLeft: boolean): Outcome {
  return { status, clientLeft, backendAsked: false, complete: true, cut: false }
}

/** What the client is told: a guard may say 429 where a guess failed. */
function refusal(hooks: readonly NamedHooks[], error: GatewayError): GatewayError {
  for (const hook of hooks) error = hook.refuse?.(error) ?? error
  return error
}

type Phase = 'vouch' | 'identify' | 'admit'

/**
 * Starts all calls of a phase in one tick, awaits all, and gives the first answer or refusal in their order: what is a
 * replay is none of the later ones' business. But what one throws at once goes first, since it needed no answer of Redis:
 * an invalid body is reported before an unauthorised key. Undefined where nothing waits.
 */
function together(hooks: readonly NamedHooks[], phase: Phase): Promise<Answer | void> | undefined {
  let first: Promise<Answer | void> | undefined
  let others: Promise<Answer | void>[] | undefined
  let atOnce: { readonly error: unknown } | undefined
  for (const hook of hooks) {
    try {
      const started = hook[phase]?.()
      if (!started) continue
      if (first) (others ??= []).push(started)
      else first = started
    } catch (error) {
      atOnce ??= { error }
    }
  }
  if (atOnce) return refusedAtOnce(atOnce.error, [first, ...(others ?? [])])
  // Mostly one call waits or none; allSettled is dearer.
  return first && others ? firstAnswer([first, ...others]) : first
}

/** What the others have taken they know only when they are answered. */
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
    for (const hook of hooks) hook.event?.(event)
  }
  return {
    event: hooks.some((hook) => hook.event) ? toAll : undefined,
    upstream(request) {
      for (const hook of hooks) hook.upstream?.(request)
    },
    finish(outcome) {
      if (isFinished) return finished
      isFinished = true
      const done = finishFrom(hooks.length - 1, { hooks, outcome, onHookFailure })
      // Whoever finishes writes the last bytes then: they must not be read before the settlement.
      finished = done ? done.then(() => x.written) : x.written
      return finished
    },
  }
}

/** A `done` that takes longer is no longer waited for. */
const doneMs = 10_000

function within(done: Promise<void>): Promise<void> {
  const { promise, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`done took more than ${doneMs} ms`)), doneMs)
  return Promise.race([done, promise]).finally(() => clearTimeout(timer))
}

interface Finishing {
  readonly hooks: readonly NamedHooks[]
  readonly outcome: Outcome
  readonly onHookFailure: HookFailure
}

/** Last plugin first, each after the one before. Undefined where nothing has to be waited for. */
function finishFrom(last: number, finishing: Finishing): Promise<void> | undefined {
  for (let at = last; at >= 0; at--) {
    const hook = finishing.hooks[at]
    const done = hook && finish(hook, finishing)
    if (done) return done.then(() => finishFrom(at - 1, finishing))
  }
  return undefined
}

function finish(
  hook: NamedHooks,
  { outcome, onHookFailure }: Finishing,
): Promise<void> | undefined {
  const failed = (error: unknown) => onHookFailure(hook.plugin, error)
  try {
    const done = hook.done?.(outcome)
    return done ? within(done).catch(failed) : undefined
  } catch (error) {
    failed(error)
    return undefined
  }
}
