// The ledger's part that no generation waits for: what operators and customers ask about their money, credits, the audit and
// the archive.

import type { Admission } from './admission.ts'
import { sumBalances } from './all-balances.ts'
import { createArchive } from './archive.ts'
import { audit, auditSteps } from './audit.ts'
import type { AuditRequest } from './audit.ts'
import { toBalance } from './balance.ts'
import { transactionLines, usageLines } from './books.ts'
import type { ExportOptions } from './books.ts'
import { creditOrder, creditRefusal } from './credit.ts'
import type { CreditRequest } from './credit.ts'
import type { Gate } from './gate.ts'
import { readEntry, readPieces, readTransactions } from './journal.ts'
import type { LedgerScripts } from './library.ts'
import type { Outbox } from './outbox.ts'
import { textAt } from '../redis/scripts.ts'
import type { ScriptLink } from '../redis/scripts.ts'
import { operatorTurn } from '../sharing/fair-turns.ts'
import type { Spool } from './spool.ts'
import type { ObjectStore } from '../store/store.ts'
import { creditTransaction, toTransaction } from './transaction.ts'
import type { Transaction } from './transaction.ts'
import type { TransactionFilter, TransactionQuery } from './transaction-query.ts'
import { readUsage, readUsagePieces } from './usage.ts'
import type { UsageReading } from './usage.ts'
import type { UsageQuery } from './usage-query.ts'
import { readPiecesOfAll, readUsageOfAll } from './usage-of-all.ts'
import type { UsageOfAllQuery } from './usage-of-all.ts'
import { refsWithRests } from './walk.ts'

export interface Credited {
  readonly transaction: Transaction
  readonly isRepeated: boolean
}

export interface BookkeepingOptions {
  readonly link: ScriptLink
  readonly scripts: LedgerScripts
  readonly gate: Pick<Gate, 'pass'>
  readonly admission: Pick<Admission, 'look' | 'planOf'>
  readonly outbox: Pick<Outbox, 'credit'>
  readonly spool: Pick<Spool, 'countLate'>
  /** ms of Redis' time. */
  readonly now: () => number
  /** Where old journal entries go. */
  readonly store: ObjectStore
  readonly journalKeepMs: number
}

/** Accounts whose journals are archived together: each may have a thousand entries in memory. */
const archivedAtOnce = 8

export type Bookkeeping = ReturnType<typeof bookkeeping>

export function bookkeeping(options: BookkeepingOptions) {
  const { link, scripts, spool, outbox, gate, admission, now, store, journalKeepMs } = options
  const archive = createArchive({ redis: link.client, scripts, store })
  const journal = { redis: link.client, archive }
  const audited = { ...journal, scripts }
  return {
    /** `isRepeated`: an earlier call with the same id, or for the same payment, had made this credit. */
    async credit(request: CreditRequest): Promise<Credited> {
      gate.pass()
      const order = creditOrder(request, now())
      const { ref, amount, type, reference } = order
      // Expired holds are reaped first: an adjustment can then take what they held, and a refund can give back what they
      // are charged.
      if (amount < 0 || type === 'refund') await admission.look(ref)
      const reply = await outbox.credit(order)
      if (reply.word !== 'ok') throw creditRefusal(reply)
      const isRepeated = reply.values[5] === 1
      const made = creditTransaction(order, reply)
      if (!isRepeated || reference === undefined) return { transaction: made, isRepeated }
      // The payment may have been made by another call, with another note.
      const entry = await readEntry(journal, ref, textAt(reply, 2))
      return { transaction: entry ? toTransaction(entry) : made, isRepeated }
    },
    /** `hmac`: of the key that asks, if one does. Its budget is then a part of the answer. */
    async balance(ref: string, hmac?: string) {
      const account = await admission.look(ref, hmac)
      return toBalance(account, admission.planOf(ref))
    },
    transactions: (ref: string, query: TransactionQuery) => readTransactions(journal, ref, query),
    /** All that match, the oldest first, as pieces of CSV. */
    transactionsCsv: (ref: string, filter: TransactionFilter, to: ExportOptions) =>
      transactionLines(readPieces(journal, ref, filter), to),
    usage: (ref: string, query: UsageQuery, options?: UsageReading) =>
      readUsage(link.client, ref, query, options),
    usageCsv: (ref: string, query: UsageQuery, to: ExportOptions) =>
      usageLines(readUsagePieces(link.client, ref, query), to),
    usageOfAll: (query: UsageOfAllQuery, signal?: AbortSignal) =>
      readUsageOfAll(link.client, query, signal),
    usageOfAllCsv: (query: UsageOfAllQuery) =>
      usageLines(readPiecesOfAll(link.client, query), { accountId: '', share: operatorTurn }),
    /** Recomputes one account or all from the journal, archived entries included. `late`: orders in this spool's late.ndjson. */
    async audit(ref?: string, more: Omit<AuditRequest, 'ref'> = {}) {
      return { ...(await audit(audited, { ref, ...more })), late: await spool.countLate() }
    },
    /** The same, step by step. The caller counts the late orders when it has all steps. */
    auditSteps: (request: AuditRequest) => auditSteps(audited, request),
    countLate: () => spool.countLate(),
    /** Of all accounts, and how many have fewer than `threshold` tokens available. Reads all of them. */
    sumBalances: (threshold: number) => sumBalances(link.client, threshold),
    /** Moves journal entries older than `journalKeepMs` to the store. Resolves with how many. Any gateway may do this at any time. */
    async archive(): Promise<number> {
      let count = 0
      const before = () => now() - journalKeepMs
      for await (const refs of refsWithRests(link.client, archivedAtOnce)) {
        const counts = await Promise.all(refs.map((ref) => archive.archive(ref, before())))
        for (const one of counts) count += one
      }
      return count
    },
  }
}
