// The life of a request, one function: check → body → identify → admit → serve → done.
// The calls of a phase start together and are all awaited; the first refusal in plugin order is the answer, and
// whoever granted something lets go of it in `done`. It ends when its work ends, not when its client leaves.

import { asGatewayError } from './errors.ts'
import type { GatewayError } from './errors.ts'
import type { Exchange, Outcome } from './exchange.ts'
import { ClientLeft } from './http/body.ts'
import type { Answer, Hooks, Route, Run, SseEvent } from './plugin.ts'

/** The wire under an exchange: what lifecycle needs of HTTP. */
export interface Wire {
  /** Reads the body; calls `vouch` before it takes more than 64 KiB. */
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
  const run = createRun(hooks, onHookFailure)
  try {
    for (const hook of hooks) hook.check?.()
    if (x.route.body === 'json') x.body = await wire.readBody(x.route, () => vouch(hooks))
    let answer = await identify(hooks)
    if (!answer) {
      await together(hooks.map((hook) => () => hook.admit?.()))
      answer = await x.route.serve(x, run)
    }
    if (!('stream' in answer)) await run.finish(plainOutcome(answer.status, wire.left))
    await wire.send(answer)
  } catch (thrown) {
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

async function vouch(hooks: readonly NamedHooks[]): Promise<void> {
  await together(hooks.map((hook) => () => hook.vouch?.()))
}

async function identify(hooks: readonly NamedHooks[]): Promise<Answer | undefined> {
  const answers = await together(hooks.map((hook) => () => hook.identify?.()))
  for (const answer of answers) if (answer) return answer
  return undefined
}

/** Starts all calls in one tick, awaits all, and throws the first refusal in their order. */
async function together<T>(calls: readonly (() => Promise<T> | T)[]): Promise<readonly T[]> {
  const started = calls.map((call) => {
    try {
      return call()
    } catch (error) {
      return Promise.reject(error)
    }
  })
  // Mostly nothing or one call waits; allSettled over all plugins is dearer.
  if (!started.some((one) => one instanceof Promise)) return started as T[]
  const settled = await Promise.allSettled(started)
  return settled.map((one) => {
    if (one.status === 'rejected') throw one.reason
    return one.value
  })
}

function createRun(hooks: readonly NamedHooks[], onHookFailure: HookFailure): Run {
  let finished: Promise<void> | undefined
  let isFinished = false
  const listeners = hooks.flatMap((hook) => (hook.event ? [hook] : []))
  const only = listeners[0]
  const toAll = (event: SseEvent) => {
    for (const hook of listeners) hook.event?.(event)
  }
  return {
    event: listeners.length > 1 ? toAll : only && ((event) => only.event?.(event)),
    upstream(request) {
      for (const hook of hooks) hook.upstream?.(request)
    },
    finish(outcome) {
      if (isFinished) return finished
      isFinished = true
      finished = finishAll(hooks, outcome, onHookFailure)
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

/** Last plugin first, each after the one before. Undefined where nothing has to be waited for. */
function finishAll(
  hooks: readonly NamedHooks[],
  outcome: Outcome,
  onHookFailure: HookFailure,
): Promise<void> | undefined {
  let before: Promise<void> | undefined
  for (const hook of hooks.toReversed()) {
    const failed = (error: unknown) => onHookFailure(hook.plugin, error)
    const call = () => {
      try {
        const done = hook.done?.(outcome)
        return done && within(done).catch(failed)
      } catch (error) {
        failed(error)
        return undefined
      }
    }
    before = before ? before.then(call) : (call() ?? undefined)
  }
  return before
}
