// Runs the checks of `tollgate doctor`: gives each a time limit, tells its finding, and goes on with the next check.
// Texts of a check may come from unknown servers: secrets and control characters in them are not shown.

import { codeOf, GatewayError, unreached } from '../../errors.ts'
import { withoutSecrets } from '../../log.ts'
import { unlessAborted } from '../../sharing/patience.ts'
import { clean } from '../table.ts'

export type Verdict = 'ok' | 'warn' | 'fail'

export interface CheckOutcome {
  readonly verdict: Verdict
  readonly detail: string
  /** The check failed because no server answered. */
  readonly unreachable?: boolean
}

export interface Finding extends CheckOutcome {
  readonly what: string
}

export const ok = (detail: string): CheckOutcome => ({ verdict: 'ok', detail })
export const warn = (detail: string): CheckOutcome => ({ verdict: 'warn', detail })
export const fail = (detail: string): CheckOutcome => ({ verdict: 'fail', detail })

/** Should end when its signal fires; if it does not, it is no longer awaited. If it throws, the check fails. */
type CheckWork = (signal: AbortSignal) => Promise<CheckOutcome>

export interface ExaminationOptions {
  /** Ends the examination: the running check, and each later one, throws the signal's reason. */
  readonly signal: AbortSignal
  /** The time limit of one check. */
  readonly limitMs: number
  readonly secrets: readonly string[]
  tell(finding: Finding): void
}

const mostDetail = 400

export class Examination {
  readonly #options: ExaminationOptions
  readonly #findings: Finding[] = []

  constructor(options: ExaminationOptions) {
    this.#options = options
  }

  get limitMs(): number {
    return this.#options.limitMs
  }

  get findings(): readonly Finding[] {
    return this.#findings
  }

  async check(what: string, run: CheckWork): Promise<Verdict> {
    const { signal } = this.#options
    const outcome = await this.#outcomeOf(run, signal)
    signal.throwIfAborted()
    return this.#tell({ what, ...outcome })
  }

  /** Removes what a check has made, even after the examination's signal has fired. Only a failure is told. */
  async tidy(what: string, run: (signal: AbortSignal) => Promise<unknown>): Promise<void> {
    const check: CheckWork = async (signal) => {
      await run(signal)
      return ok('')
    }
    const outcome = await this.#outcomeOf(check)
    if (outcome.verdict !== 'ok') this.#tell({ what, ...outcome })
  }

  async #outcomeOf(run: CheckWork, ...others: readonly AbortSignal[]): Promise<CheckOutcome> {
    const { limitMs } = this.#options
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(), limitMs)
    const signal = AbortSignal.any([...others, late.signal])
    try {
      signal.throwIfAborted()
      return await unlessAborted(run(signal), signal)
    } catch (error) {
      if (!late.signal.aborted) return failureOf(error)
      return { ...fail(`no answer within ${limitMs / 1000} s`), unreachable: true }
    } finally {
      clearTimeout(timer)
    }
  }

  #tell(finding: Finding): Verdict {
    const shown = {
      ...finding,
      what: this.#plain(finding.what),
      detail: this.#plain(finding.detail),
    }
    this.#findings.push(shown)
    this.#options.tell(shown)
    return shown.verdict
  }

  #plain(text: string): string {
    const masked = withoutSecrets(text, this.#options.secrets)
    return clean(masked.replaceAll(/\s+/g, ' ').trim().slice(0, mostDetail))
  }
}

function failureOf(error: unknown): CheckOutcome {
  return { ...fail(reasonOf(error)), unreachable: isUnreachable(error) }
}

/** The text of the error's first cause: the messages of the gateway's own errors are meant for clients, and fetch's say nothing. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  if (!(error instanceof Error)) return String(error)
  const saysLittle = error instanceof GatewayError || error instanceof TypeError
  if (saysLittle && error.cause !== undefined) return reasonOf(error.cause)
  // The code of an S3 server is the error's name; some servers send no message with it.
  if (error.message === 'UnknownError') return error.name
  const isPlain = /^(Error|TypeError|TimeoutError)$/.test(error.name)
  return isPlain ? error.message : `${error.name}: ${error.message}`
}

const unreachable = new Set([...unreached, 'ECONNRESET', 'EPIPE'])

function isUnreachable(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.some(isUnreachable)
  if (!(error instanceof Error)) return false
  if (error.name === 'TimeoutError' || unreachable.has(codeOf(error))) return true
  return error.cause !== undefined && isUnreachable(error.cause)
}
