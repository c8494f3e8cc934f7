// The active checks of targets that have a `health_check`: a GET at intervals, one at a time for each target, by each
// process for itself. `fails` failures in a row make a target unhealthy, `passes` passes in a row make it healthy
// again. A target that loads its model has neither failed nor passed. A few KiB of an answer are read; redirects are
// not followed.

import { isDeepStrictEqual } from 'node:util'
import type { IncomingMessage } from 'node:http'
import type { Model, Target } from '../config/config.ts'
import { codeOf, isOutOfFiles } from '../errors.ts'
import type { Log } from '../log.ts'
import { PatientTimer } from '../sharing/patience.ts'
import { getFrom } from './get.ts'
import { saysLoading } from './report.ts'
import type { ModelState, TargetState } from './target-state.ts'
import type { Targets } from './targets.ts'

type CheckSettings = NonNullable<Target['healthCheck']>

/** `failure` is a status or a code, without the target's address. */
type Health = 'passed' | 'loading' | 'not-asked' | { readonly failure: string }

const mostBytes = 4096

/** Resolves with what the target said of itself within `timeoutMs`. */
export async function askHealth(
  target: Target,
  { path, timeoutMs }: CheckSettings,
  ended: AbortSignal,
): Promise<Health> {
  const late = new AbortController()
  const timer = new PatientTimer(() => late.abort(), timeoutMs)
  const signal = AbortSignal.any([ended, late.signal])
  try {
    const url = new URL(path, target.url)
    const answer = await getFrom(target, { url, connectMs: timeoutMs, signal })
    return healthOf(answer, await beginningOf(answer))
  } catch (error) {
    if (isOutOfFiles(error)) return 'not-asked'
    return { failure: signal.aborted ? 'time-out' : codeOf(error) || 'no answer' }
  } finally {
    timer.clear()
  }
}

function healthOf({ statusCode = 0, headers }: IncomingMessage, body: Buffer): Health {
  // 429: it is well, and has much to do.
  if ((statusCode >= 200 && statusCode < 300) || statusCode === 429) return 'passed'
  if (saysLoading(statusCode, { headers, body })) return 'loading'
  return { failure: `status ${statusCode}` }
}

async function beginningOf(answer: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const part of answer as AsyncIterable<Buffer>) {
    parts.push(part)
    bytes += part.length
    // Leaving the loop closes the connection.
    if (bytes >= mostBytes) break
  }
  return Buffer.concat(parts)
}

/** At most a tenth earlier or later, so that the checks of many processes do not come together. */
const jitter = 0.1

interface Checked {
  readonly state: TargetState
  readonly model: ModelState
  readonly settings: CheckSettings
  readonly log: Log
  readonly random: () => number
}

/** The checks of one target, from now until `end`. */
class HealthCheck {
  readonly #checked: Checked
  readonly #ended = new AbortController()
  #timer: NodeJS.Timeout | undefined
  #asking: Promise<void> | undefined
  /** Answers in a row that contradict what is known of the target. */
  #inRow = 0

  constructor(checked: Checked) {
    this.#checked = checked
    this.#wait(checked.random() * checked.settings.intervalMs)
  }

  get settings(): CheckSettings {
    return this.#checked.settings
  }

  /** Resolves when nothing of it is under way any more. */
  async end(): Promise<void> {
    this.#ended.abort()
    clearTimeout(this.#timer)
    await this.#asking
  }

  #wait(ms: number): void {
    this.#timer = setTimeout(() => (this.#asking = this.#ask()), ms).unref()
  }

  async #ask(): Promise<void> {
    const { state, settings, random } = this.#checked
    const health = await askHealth(state.target, settings, this.#ended.signal)
    if (this.#ended.signal.aborted) return
    if (health === 'loading') this.#loads()
    else if (health !== 'not-asked') this.#judge(health)
    this.#wait(settings.intervalMs * (1 - jitter + 2 * jitter * random()))
  }

  /** The target counts as loading until the next check has its answer. */
  #loads(): void {
    const { state, settings } = this.#checked
    this.#inRow = 0
    state.loads(settings.intervalMs * (1 + jitter) + settings.timeoutMs)
  }

  #judge(health: Exclude<Health, 'loading' | 'not-asked'>): void {
    const { state, model, settings, log } = this.#checked
    const hasPassed = health === 'passed'
    state.hasLoaded()
    if (hasPassed !== state.isUnhealthy) {
      this.#inRow = 0
      return
    }
    this.#inRow++
    if (this.#inRow < (hasPassed ? settings.passes : settings.fails)) return
    this.#inRow = 0
    state.isUnhealthy = !hasPassed
    const fields = { model: model.model.id, target: state.target.name }
    if (hasPassed) log.info(fields, 'a target passes its health checks again')
    else log.warn({ ...fields, ...health }, 'a target fails its health checks')
    if (hasPassed) model.serve()
  }
}

interface HealthChecksOptions {
  readonly log: Log
  readonly random?: () => number
}

/** Made once by the gateway. */
export class HealthChecks {
  readonly #targets: Targets
  readonly #parts: Pick<Checked, 'log' | 'random'>
  readonly #running = new Map<TargetState, HealthCheck>()
  #isClosed = false

  constructor(targets: Targets, { log, random = Math.random }: HealthChecksOptions) {
    this.#targets = targets
    this.#parts = { log, random }
  }

  /** Checks the targets of these models that are to be checked, and no others. What has not changed goes on. */
  follow(models: ReadonlyMap<string, Model>): void {
    // A worker may be told to take up a configuration when it has already closed.
    if (this.#isClosed) return
    const wanted = new Map<TargetState, Checked>()
    for (const model of models.values()) {
      for (const state of this.#targets.statesOf(model)) {
        const settings = state.target.healthCheck
        if (!settings) continue
        const modelState = this.#targets.modelStateOf(model)
        wanted.set(state, { ...this.#parts, state, model: modelState, settings })
      }
    }
    for (const [state, check] of this.#running) this.#endUnlessWanted(state, check, wanted)
    for (const [state, checked] of wanted) {
      if (!this.#running.has(state)) this.#running.set(state, new HealthCheck(checked))
    }
  }

  #endUnlessWanted(
    state: TargetState,
    check: HealthCheck,
    wanted: ReadonlyMap<TargetState, Checked>,
  ): void {
    const next = wanted.get(state)
    if (next && isDeepStrictEqual(next.settings, check.settings)) return
    this.#running.delete(state)
    if (!next) state.isUnhealthy = false
    void check.end()
  }

  /** Resolves when no check is under way any more. */
  async close(): Promise<void> {
    this.#isClosed = true
    const ended = [...this.#running.values()].map((check) => check.end())
    this.#running.clear()
    await Promise.all(ended)
  }
}
