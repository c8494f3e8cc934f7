// tollgate audit: recomputes balances from the journal. Reads the audit line by line as the gateway makes it, shows how
// far it is, and goes on from there when the gateway breaks off. The exit code is 0 only if all accounts were checked
// and nothing differs.

import { setTimeout as sleep } from 'node:timers/promises'
import type { AuditReport, AuditStep } from '../ledger/audit.ts'
import type { Difference } from '../ledger/tally.ts'
import { CliError, exit, tell, usageError } from './command.ts'
import type { Admin, Call, Command } from './command.ts'
import { formatAmount, table } from './table.ts'

export const audit: Command = {
  name: 'audit',
  words: ['ACCOUNT?'],
  summary: 'recompute balances from the journal; exit code 1 where they differ',
  options: {
    after: { value: 'ID', help: 'only accounts behind this one: where an earlier audit stopped' },
  },
  async run(call) {
    const [account] = call.words
    const after = call.text('after')
    if (account !== undefined && after !== undefined)
      throw usageError('Give ACCOUNT or --after, not both.')
    const work = new Work(call, { admin: await call.admin(), account, after })
    const isWhole = await work.follow()
    const report = work.report()
    if (isWhole || report.difference_count > 0) tell(call, report, describe(report))
    if (!isWhole) call.io.stderr.write(`tollgate: ${work.whereItStopped()}\n`)
    return isWhole && report.difference_count === 0 ? exit.ok : exit.failed
  },
}

/** Pauses before it asks again; after any progress they begin anew. In all 44 s, enough for a gateway to restart. */
const pausesMs = [100, 300, 1000, 3000, 10_000, 10_000, 10_000, 10_000]
/** The longest time without a line. The gateway writes one each second. */
const silentMs = 30_000
/** How many differences are shown; all are counted. */
const mostShown = 1000
/** How often the progress is written where no terminal can show it in one line. */
const plainProgressMs = 10_000

type AuditCounts = Pick<AuditStep, 'accounts' | 'entries' | 'difference_count'>

interface FailedLine {
  readonly object: undefined
  readonly error: { readonly message: string; readonly code: string }
  readonly request_id: string
}

type Line =
  | ({ readonly object: 'audit.progress' } & Omit<AuditStep, 'differences'>)
  | ({ readonly object: 'audit.difference' } & Difference)
  | ({ readonly object: 'audit.end'; readonly late: number } & AuditCounts)
  | FailedLine

interface Asking {
  readonly admin: Admin
  readonly account: string | undefined
  readonly after: string | undefined
}

/** An audit of one or several calls: each goes on where the last one broke off. */
class Work {
  readonly #call: Call
  readonly #admin: Admin
  readonly #account: string | undefined
  readonly #differences: Difference[] = []
  /** Found since the last progress. If the call breaks off, the next one finds them again. */
  #unsure: Difference[] = []
  /** Why the gateway stopped this call's audit. */
  #refusal: CliError | undefined
  #cursor: string | undefined
  /** Up to the cursor. */
  #checked: AuditCounts = { accounts: 0, entries: 0, difference_count: 0 }
  /** What was checked when this call began. */
  #base = this.#checked
  #total: number | undefined
  #late = 0
  #shownAt = performance.now()

  constructor(call: Call, { admin, account, after }: Asking) {
    this.#call = call
    this.#admin = admin
    this.#account = account
    this.#cursor = after
  }

  /** Resolves with whether all was checked: false if the user interrupts it. */
  async follow(): Promise<boolean> {
    const { signal } = this.#call.io
    for (let tries = 0; ; tries++) {
      const from = this.#checked
      try {
        await this.#ask()
        return true
      } catch (error) {
        this.#clearLine()
        if (signal?.aborted) return false
        if (this.#checked !== from) tries = 0
        const pauseMs = pausesMs[tries]
        const mayHelp = error instanceof CliError && error.exitCode === exit.unreachable
        if (!mayHelp || this.#total === undefined) throw error
        if (pauseMs === undefined)
          throw new CliError(exit.unreachable, `${error.message}\n${this.whereItStopped()}`)
        await sleep(pauseMs, undefined, { signal }).catch(() => undefined)
      }
    }
  }

  report(): AuditReport & { readonly late: number } {
    return { object: 'audit', ...this.#checked, differences: this.#differences, late: this.#late }
  }

  whereItStopped(): string {
    const goOn =
      this.#cursor === undefined ? '' : ` To go on: tollgate audit --after ${this.#cursor}`
    return `Stopped after ${this.#progress(this.#checked)}.${goOn}`
  }

  async #ask(): Promise<void> {
    this.#base = this.#checked
    this.#unsure = []
    this.#refusal = undefined
    let hasEnded = false
    let rest = ''
    const write = (text: string) => {
      const lines = (rest + text).split('\n')
      rest = lines.pop() ?? ''
      for (const one of lines) hasEnded = this.#take(JSON.parse(one) as Line) || hasEnded
    }
    await this.#admin.download(`audit?${this.#query()}`, { write }, { timeoutMs: silentMs })
    if (!hasEnded) throw this.#refusal ?? new CliError(exit.unreachable, endedEarly)
    this.#clearLine()
  }

  #query(): URLSearchParams {
    const query = new URLSearchParams({ format: 'ndjson' })
    if (this.#account !== undefined) query.set('account', this.#account)
    if (this.#cursor !== undefined) query.set('after', this.#cursor)
    return query
  }

  /** Returns whether this is the end. */
  #take(line: Line): boolean {
    if (line.object === undefined) {
      const { message, code } = line.error
      this.#refusal = new CliError(exit.unreachable, `${message} (${code}, ${line.request_id})`)
      return false
    }
    if (line.object === 'audit.difference') {
      if (this.#unsure.length < mostShown) this.#unsure.push(line)
      return false
    }
    const counts = this.#sum(line)
    const isEnd = line.object === 'audit.end'
    if (isEnd) this.#late = line.late
    else {
      this.#total ??= line.total
      this.#showProgress(counts)
      // The cursor stays while a long journal is read: its entries are counted before its account is checked.
      if (line.cursor === null || line.cursor === this.#cursor) return false
      this.#cursor = line.cursor
    }
    this.#checked = counts
    this.#differences.push(...this.#unsure.slice(0, mostShown - this.#differences.length))
    this.#unsure = []
    return isEnd
  }

  #sum({ accounts, entries, difference_count }: AuditCounts): AuditCounts {
    const base = this.#base
    return {
      accounts: base.accounts + accounts,
      entries: base.entries + entries,
      difference_count: base.difference_count + difference_count,
    }
  }

  #showProgress(counts: AuditCounts): void {
    const { stderr } = this.#call.io
    if (this.#call.isJson) return
    if (stderr.isTTY) return void stderr.write(`\r${this.#progress(counts)}${clearRest}`)
    if (performance.now() - this.#shownAt < plainProgressMs) return
    this.#shownAt = performance.now()
    stderr.write(`${this.#progress(counts)}\n`)
  }

  #clearLine(): void {
    if (this.#call.io.stderr.isTTY && !this.#call.isJson)
      this.#call.io.stderr.write(`\r${clearRest}`)
  }

  /** Accounts that are created meanwhile are checked, too: there may be more than the total at the beginning. */
  #progress({ accounts, entries, difference_count }: AuditCounts): string {
    const all = count(Math.max(this.#total ?? 0, accounts), 'account', 'accounts')
    return `${formatAmount(accounts)} of ${all}, ${entriesOf(entries)}, ${differencesOf(difference_count)}`
  }
}

const clearRest = '\x1b[K'
const endedEarly = 'The gateway ended the audit too early.'

const entriesOf = (number: number) => count(number, 'journal entry', 'journal entries')
const differencesOf = (number: number) => count(number, 'difference', 'differences')

function describe({ accounts, entries, differences, difference_count }: AuditReport): string {
  const counted = `${count(accounts, 'account', 'accounts')}, ${entriesOf(entries)}`
  if (difference_count === 0) return `${counted}: everything adds up.\n`
  const rows = table(
    [
      { title: 'ACCOUNT', cell: ({ account_id }) => account_id },
      { title: 'WHAT', cell: ({ what }) => what },
      { title: 'EXPECTED', isNumber: true, cell: ({ expected }) => formatAmount(expected) },
      { title: 'FOUND', isNumber: true, cell: ({ found }) => formatAmount(found) },
    ],
    differences,
  )
  const more = difference_count - differences.length
  const shown = more === 0 ? '' : `${formatAmount(more)} more that are not shown.\n`
  return `${rows}${shown}${counted}: ${differencesOf(difference_count)}.\n`
}

function count(number: number, one: string, many: string): string {
  return `${formatAmount(number)} ${number === 1 ? one : many}`
}
