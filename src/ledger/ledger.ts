// The prepaid balance: who may spend, what is held, what was charged. All sums live in Redis, and only scripts change
// them; this class calls the scripts, and has the leases of this process' holds and the outbox of writes that Redis
// must not lose. Promises: no balance is negative, no token appears or vanishes, each hold is charged exactly once, a
// crash loses nothing (docs/money.md). The ledger sets no prices.

import type { Plan } from '../config/config.ts'
import type { Page } from '../http/page.ts'
import { createArchive } from './archive.ts'
import type { ObjectStore } from '../store/store.ts'
import { allRefs, audit } from './audit.ts'
import type { AuditReport } from './audit.ts'
import { toBalance } from './balance.ts'
import type { Balance } from './balance.ts'
import { creditOrder, creditRefusal } from './credit.ts'
import type { CreditRequest } from './credit.ts'
import { createConnectedClock, createRedisClock } from './clock.ts'
import { createDebtors } from './debtors.ts'
import type { Debtors } from './debtors.ts'
import { Admission } from './admission.ts'
import type { AdmitRequest, IdentifyRequest } from './admission.ts'
import type { AccountIdentity } from './replies.ts'
import { createGate } from './gate.ts'
import type { Gate } from './gate.ts'
import type { LedgerEvents } from './events.ts'
import type { Hold, Settled } from './hold.ts'
import { createHoldReader } from './hold-rows.ts'
import type { HoldReader } from './hold-rows.ts'
import { creditTransaction, readTransactions } from './journal.ts'
import type { Transaction, TransactionList } from './journal.ts'
import { Leases } from './leases.ts'
import { ledgerScripts } from './library.ts'
import { releaseOrder, reportSettled, sendOrder, settleOrder, toSettled } from './orders.ts'
import type { Settlement } from './orders.ts'
import { Outbox } from './outbox.ts'
import { createScripts, isUnclear, unavailable } from '../redis/scripts.ts'
import type { ScriptLink } from '../redis/scripts.ts'
import { openSpool } from './spool.ts'
import type { Spool } from './spool.ts'
import { readUsage } from './usage.ts'
import type { UsageList, UsageQuery } from './usage.ts'

export interface Credited {
  readonly transaction: Transaction
  readonly isRepeated: boolean
}

export interface LedgerOptions {
  readonly link: ScriptLink
  readonly spoolDir: string
  readonly leaseMs: number
  /** Called at each admission, because plans change with the configuration. */
  readonly plans: () => ReadonlyMap<string, Plan>
  /** Where old journal entries go; without it they stay in Redis. */
  readonly archiveStore?: ObjectStore
  /** Default: 90 days. */
  readonly journalKeepMs?: number
  readonly events?: LedgerEvents
  /** This machine's clock, ms. */
  readonly now?: () => number
}

const dayMs = 86_400_000
const takeUpMs = 5000

export async function createLedger(options: LedgerOptions): Promise<Ledger> {
  const parts = partsOf(options, await openSpool(options.spoolDir, options.events))
  parts.outbox.adopt(await parts.spool.takeOver())
  const ledger = new Ledger(parts)
  await ledger.open()
  return ledger
}

type Parts = ReturnType<typeof partsOf>

function partsOf(options: LedgerOptions, spool: Spool) {
  const { link, leaseMs, plans, archiveStore: store, events = {}, now } = options
  const { journalKeepMs = 90 * dayMs } = options
  const clock = createRedisClock(now)
  const connected = createConnectedClock()
  const scripts = createScripts({
    link,
    library: ledgerScripts,
    onReply(name, seconds, nowMs) {
      clock.learn(nowMs)
      connected.good()
      events.command?.(name, seconds)
    },
  })
  const debtors = createDebtors(link.client)
  const holds = createHoldReader(link.client)
  const outbox = new Outbox({
    send: (order) => sendOrder(scripts, order),
    isUp: () => link.up,
    connected,
    spool,
    onSettled: (reply, order) => reportSettled(reply, order, { onOwing: debtors.note, events }),
    onLate: () => events.late?.(),
    onProblem: (message, cause) => events.problem?.(message, cause),
  })
  const onReaped = (count: number) => events.reaped?.(count)
  const admission = new Admission({ scripts, leaseMs, plans, onReaped, onOwing: debtors.note })
  const archive = store && createArchive({ redis: link.client, scripts, store })
  return {
    link,
    leaseMs,
    events,
    journalKeepMs,
    clock,
    connected,
    scripts,
    spool,
    outbox,
    admission,
    debtors,
    holds,
    archive,
  }
}

export class Ledger {
  readonly #parts: Parts
  readonly #leases: Leases
  readonly #gate: Gate
  #lastUpkeep = performance.now()

  constructor(parts: Parts) {
    this.#parts = parts
    const { link, scripts, leaseMs, admission, events, connected } = parts
    this.#leases = new Leases({
      scripts,
      leaseMs,
      isUp: () => link.up,
      openAgain: async (hold) => {
        if (!(await admission.openAgain(hold))) hold.stop('lost')
      },
      onTick: () => this.#upkeep(),
    })
    this.#gate = createGate(link, { events, connected, recover: () => this.#recover() })
  }

  /** Must be called once, before anything else. */
  async open(): Promise<void> {
    this.#leases.start()
    // The first request then finds the gate open. The wait is bounded, so that the process can report a Redis that
    // refuses.
    const bound = new Promise((go) => setTimeout(go, takeUpMs).unref())
    await Promise.race([this.#gate.start(), bound])
  }

  /** Whether paid work is admitted: not while Redis is away, not before this process has renewed its holds, and not while the spool is full. */
  get isOpen(): boolean {
    return this.#gate.isOpen && !this.#parts.spool.isFull
  }

  get leaseMs(): number {
    return this.#parts.leaseMs
  }

  get holdsOpen(): number {
    return this.#leases.size
  }

  /** The orders that wait on disk, or in memory while the disk refuses them. */
  get spool(): Pick<Spool, 'size' | 'unwritten' | 'isFailing'> {
    return this.#parts.spool
  }

  /** Holds of any gateway, read from Redis. */
  get holds(): HoldReader {
    return this.#parts.holds
  }

  /** Which accounts owe something, and how much in all. */
  get debtors(): Debtors {
    return this.#parts.debtors
  }

  /** The plan that the account was on when last seen, else the default one. */
  planOf(ref: string): Plan | undefined {
    return this.#parts.admission.planOf(ref)
  }

  async identify(request: IdentifyRequest): Promise<AccountIdentity> {
    this.#gate.pass()
    return this.#parts.admission.identify(request)
  }

  async admit(request: AdmitRequest): Promise<Hold> {
    this.#gate.pass()
    if (this.#parts.spool.isFull)
      throw unavailable(new Error('too many ledger entries wait for the disk'))
    const { ref, hmac, holdId } = request
    try {
      const hold = await this.#parts.admission.admit(request)
      this.#leases.add(hold)
      return hold
    } catch (error) {
      if (isUnclear(error)) void this.#parts.outbox.settle(releaseOrder(ref, hmac, holdId))
      throw error
    }
  }

  /** Sends in this tick; the caller need not await the result. Never rejects because Redis is away. A second call for the same hold returns the same promise. */
  settle(hold: Hold, ending: Settlement): Promise<Settled> {
    if (hold.settlement) return hold.settlement
    this.#leases.remove(hold)
    const order = settleOrder(hold, ending)
    hold.settlement = this.#parts.outbox.settle(order).then((reply) => toSettled(order, reply))
    return hold.settlement
  }

  /** `isRepeated`: an earlier call with the same id had made this credit. */
  async credit(request: CreditRequest): Promise<Credited> {
    this.#gate.pass()
    const { clock, admission, outbox } = this.#parts
    const order = creditOrder(request, clock.now())
    if (order.amount < 0) await admission.look(order.ref)
    const reply = await outbox.credit(order)
    if (reply.word !== 'ok') throw creditRefusal(reply)
    return { transaction: creditTransaction(order, reply), isRepeated: reply.values[5] === 1 }
  }

  async balance(ref: string): Promise<Balance> {
    this.#gate.pass()
    return toBalance(await this.#parts.admission.look(ref))
  }

  transactions(ref: string, page: Page): Promise<TransactionList> {
    return readTransactions(this.#journal, ref, page)
  }

  usage(ref: string, query: UsageQuery): Promise<UsageList> {
    return readUsage(this.#parts.link.client, ref, query)
  }

  /** Recomputes one account or all from the journal, archived entries included. `late`: orders in this spool's late.ndjson. */
  async audit(ref?: string): Promise<AuditReport & { readonly late: number }> {
    return { ...(await audit(this.#journal, ref)), late: await this.#parts.spool.countLate() }
  }

  /** Moves journal entries older than `journalKeepMs` to the store. Resolves with how many. Any gateway may do this at any time. */
  async archive(): Promise<number> {
    const { archive, link, clock, journalKeepMs } = this.#parts
    let count = 0
    if (!archive) return count
    for await (const ref of allRefs(link.client)) {
      count += await archive.archive(ref, clock.now() - journalKeepMs)
    }
    return count
  }

  /** Waits at most `boundMs` for the replies to what was sent; the rest stays in the spool for the next start. */
  async close(boundMs = 5000): Promise<void> {
    const { outbox, spool } = this.#parts
    this.#leases.stop()
    this.#gate.stop()
    const bound = new Promise((resolve) => setTimeout(resolve, boundMs).unref())
    await Promise.race([outbox.idle(), bound])
    await outbox.park()
    await spool.close()
  }

  get #journal() {
    const { link, archive } = this.#parts
    return { redis: link.client, archive }
  }

  async #recover(): Promise<void> {
    const { scripts, outbox } = this.#parts
    await scripts.load()
    // Leases first, because other gateways may reap. Then the replay: it may bring the money that lost holds need.
    const lost = await this.#leases.renew()
    await outbox.replay()
    await this.#leases.reopen(lost)
  }

  async #upkeep(): Promise<void> {
    const { link, outbox, spool, connected } = this.#parts
    await spool.retry()
    // An idle gateway gets no replies, and without replies the age of the outbox entries does not grow.
    if (link.up && outbox.size > 0) await link.client.ping().then(connected.good)
    await outbox.sweep()
    if (performance.now() - this.#lastUpkeep < 10_000) return
    this.#lastUpkeep = performance.now()
    await spool.touch()
    outbox.adopt(await spool.takeOver())
  }
}
