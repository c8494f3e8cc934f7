// How the calls of all customers went, and which faults were there meanwhile.

import { codeIn } from './call.ts'
import type { Called } from './call.ts'

/** What a caller can tell apart; the columns of the table of faults. */
export const kinds = ['answered', '404 409', '503', '502 504', 'cut', 'unreached'] as const
export type Kind = (typeof kinds)[number]

export interface Happened {
  times: number
  ms: number
  /** Calls that ended while it lasted. */
  readonly calls: Map<Kind, number>
}

export class Outcomes {
  /** `200`, `503 ledger_unavailable`, `cut`, and so on. */
  readonly answers = new Map<string, number>()
  /** By the name of the fault. */
  readonly faults = new Map<string, Happened>()
  readonly #now: Happened[] = []

  /** Returns what ends it. */
  begin(fault: string): () => void {
    const startedAt = performance.now()
    const one = this.faults.get(fault) ?? { times: 0, ms: 0, calls: new Map<Kind, number>() }
    this.faults.set(fault, one)
    one.times++
    this.#now.push(one)
    return () => {
      one.ms += performance.now() - startedAt
      this.#now.splice(this.#now.indexOf(one), 1)
    }
  }

  /** Returns how it is named. `leaves`: the client did not want all of the answer. */
  note(called: Called, leaves: boolean): string {
    const { status, isWhole } = called
    const isCut = status !== 0 && !isWhole && !leaves
    const what = status === 0 ? 'unreached' : isCut ? 'cut' : `${status}`
    const outcome = `${what}${status >= 400 ? ` ${codeIn(called)}` : ''}`
    this.answers.set(outcome, (this.answers.get(outcome) ?? 0) + 1)
    const kind = isCut ? 'cut' : kindOf(status)
    for (const { calls } of new Set(this.#now)) calls.set(kind, (calls.get(kind) ?? 0) + 1)
    return outcome
  }
}

function kindOf(status: number): Kind {
  if (status === 0) return 'unreached'
  if (status < 400) return 'answered'
  if (status === 503) return '503'
  return status < 500 ? '404 409' : '502 504'
}
