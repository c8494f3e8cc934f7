// The prepaid balance: who may spend, what is held, what was charged. All sums live in Redis, changed by scripts alone;
// this is their face, with the leases of this process' holds and the outbox of what Redis must not forget.
// Promises: never negative, conserved, exactly once, nothing lost by a crash (docs: ledger). It sets no prices.

import type { Plan } from '../config/config.ts'
import { GatewayError } from '../errors.ts'
import type { Page } from '../http/page.ts'
import { createArchive } from './archive.ts'
import type { ArchiveStore } from './archive.ts'
import { allRefs, audit } from './audit.ts'
import type { AuditReport } from './audit.ts'
import { creditOrder, creditRefusal } from './credit.ts'
import type { CreditRequest } from './credit.ts'
import { createConnectedClock, createRedisClock } from './clock.ts'
import { createDoor } from './door.ts'
import type { AdmitRequest, Identity, IdentifyRequest } from './door.ts'
import { releaseOrder, settleOrder, toSettled } from './ending.ts'
import type { Ending } from './ending.ts'
import { createGate } from './gate.ts'
import type { Hold, Settled } from './hold.ts'
import { creditTransaction, readTransactions } from './journal.ts'
import type { Transaction, TransactionList } from './journal.ts'
import { createLeases } from './leases.ts'
import { sendOrder } from './orders.ts'
import { Outbox } from './outbox.ts'
import { createScripts, numberAt, wasRefused } from './scripts.ts'
import type { LedgerLink, Reply } from './scripts.ts'
import { openSpool } from './spool.ts'
import { readUsage } from './usage.ts'
import type { UsageList, UsageQuery } from './usage.ts'

export type { AdmitRequest, HoldMeta, Identity, IdentifyRequest } from './door.ts'
export type { AuditReport, Difference } from './audit.ts'
export type { CreditRequest } from './credit.ts'
export type { Ending } from './ending.ts'
export type { Hold, Progress, Settled, StopReason } from './hold.ts'
export type { Transaction, TransactionList } from './journal.ts'
export type { UsageList, UsageQuery } from './usage.ts'
export type { LedgerLink } from './scripts.ts'

export interface Balance {
  readonly object: 'billing.balance'
  readonly unit: 'token'
  readonly balance: number
  readonly reserved: number
  readonly available: number
  readonly granted: number
  readonly spent: number
  readonly updated_at: number
}

export interface Ledger {
  identify(request: IdentifyRequest): Promise<Identity>
  admit(request: AdmitRequest): Promise<Hold>
  /** The plan that the account was on when last seen, else the default one. */
  planOf(ref: string): Plan | undefined
  /** Sends in this tick; needs not be awaited. Never rejects because Redis is away. The second call for a hold answers the same. */
  settle(hold: Hold, ending: Ending): Promise<Settled>
  credit(request: CreditRequest): Promise<Transaction>
  balance(ref: string): Promise<Balance>
  transactions(ref: string, page: Page): Promise<TransactionList>
  usage(ref: string, query: UsageQuery): Promise<UsageList>
  /** Recomputes one account or all from the journal, archived entries included. `late`: orders in this spool's late.ndjson. */
  audit(ref?: string): Promise<AuditReport & { readonly late: number }>
  /** Moves journal entries older than `journalKeepMs` to the store. Answers how many. Any gateway may, at any time. */
  archive(): Promise<number>
  /** Whether new work is admitted: not while Redis is away, nor until this process has taken up its holds again. */
  readonly isOpen: boolean
  readonly holdsOpen: number
  readonly spooled: number
  /** Waits for what was sent, at most `boundMs`; the rest is in the spool for the next start. */
  close(boundMs?: number): Promise<void>
}

/** What metrics and the log are told. Called in the middle of requests: must be quick and must not throw. */
export interface LedgerEvents {
  command?(script: string, seconds: number): void
  reaped?(count: number): void
  shortfall?(tokens: number): void
  late?(): void
  problem?(message: string, cause: unknown): void
}

export interface LedgerOptions {
  readonly link: LedgerLink
  readonly spoolDir: string
  readonly leaseMs: number
  /** Asked at each admission: plans change with the configuration. */
  readonly plans: () => ReadonlyMap<string, Plan>
  /** Where old journal entries go; without it they stay in Redis. */
  readonly archiveStore?: ArchiveStore
  /** 90 days where not given. */
  readonly journalKeepMs?: number
  readonly events?: LedgerEvents
  /** This machine's clock, ms. */
  readonly now?: () => number
}

const dayMs = 86_400_000
const takeUpMs = 5000

export async function createLedger(options: LedgerOptions): Promise<Ledger> {
  const { link, leaseMs, plans, archiveStore, events = {}, now } = options
  const { journalKeepMs = 90 * dayMs } = options
  const clock = createRedisClock(now)
  const connected = createConnectedClock()
  const spool = await openSpool(options.spoolDir)
  const isUp = () => link.up
  const scripts = createScripts({
    link,
    onReply(name, seconds, nowMs) {
      clock.learn(nowMs)
      connected.good()
      events.command?.(name, seconds)
    },
  })
  const archive =
    archiveStore && createArchive({ redis: link.client, scripts, store: archiveStore })
  const journal = { redis: link.client, archive }
  const outbox = new Outbox({
    send: (order) => sendOrder(scripts, clock, order),
    isUp,
    connected,
    spool,
    onSettled: (reply) => reportShortfall(reply, events),
    onLate: () => events.late?.(),
    onProblem: (message, cause) => events.problem?.(message, cause),
  })
  const onReaped = (count: number) => events.reaped?.(count)
  const door = createDoor({ scripts, clock, leaseMs, plans, onReaped })
  const leases = createLeases({
    scripts,
    leaseMs,
    isUp,
    openAgain: async (hold) => {
      if (!(await door.openAgain(hold))) hold.stop('lost')
    },
    onTick: () => upkeep(),
  })
  const gate = createGate(link, { events, connected, recover })

  async function recover(): Promise<void> {
    await scripts.load()
    // Renewed first: others may reap. Replayed next: it may be the money that lost holds are opened with again.
    const lost = await leases.renew()
    await outbox.replay()
    await leases.reopen(lost)
  }
  let lastUpkeep = performance.now()
  async function upkeep(): Promise<void> {
    // An idle gateway gets no replies; without one nothing ages.
    if (link.up && outbox.size > 0) await link.client.ping().then(connected.good)
    await outbox.sweep()
    if (performance.now() - lastUpkeep < 10_000) return
    lastUpkeep = performance.now()
    await spool.touch()
    outbox.adopt(await spool.takeOver())
  }
  outbox.adopt(await spool.takeOver())
  leases.start()
  // So that the first request finds it open; but a Redis that refuses must not keep the process from saying so.
  await Promise.race([gate.start(), new Promise((go) => setTimeout(go, takeUpMs).unref())])
  return {
    planOf: door.planOf,
    async identify(request) {
      gate.pass()
      return door.identify(request)
    },
    async admit(request) {
      gate.pass()
      const { ref, hmac, holdId } = request
      try {
        const hold = await door.admit(request)
        leases.add(hold)
        return hold
      } catch (error) {
        if (isUnclear(error)) void outbox.settle(releaseOrder(ref, hmac, holdId))
        throw error
      }
    },
    settle(hold, ending) {
      if (hold.settlement) return hold.settlement
      leases.remove(hold)
      const order = settleOrder(hold, ending)
      hold.settlement = outbox.settle(order).then((reply) => toSettled(order, reply))
      return hold.settlement
    },
    async credit(request) {
      gate.pass()
      const order = creditOrder(request, clock.now())
      if (order.amount < 0) await door.look(order.ref)
      const reply = await outbox.credit(order)
      if (reply.word !== 'ok') throw creditRefusal(reply)
      return creditTransaction(order, reply)
    },
    async balance(ref) {
      gate.pass()
      return toBalance(await door.look(ref))
    },
    transactions: (ref, page) => readTransactions(journal, ref, page),
    usage: (ref, query) => readUsage(link.client, ref, query),
    async audit(ref) {
      return { ...(await audit(journal, ref)), late: await spool.countLate() }
    },
    async archive() {
      let count = 0
      if (!archive) return count
      for await (const ref of allRefs(link.client)) {
        count += await archive.archive(ref, clock.now() - journalKeepMs)
      }
      return count
    },
    get isOpen() {
      return gate.isOpen
    },
    get holdsOpen() {
      return leases.size
    },
    get spooled() {
      return spool.size
    },
    async close(boundMs = 5000) {
      leases.stop()
      gate.stop()
      const bound = new Promise((resolve) => setTimeout(resolve, boundMs).unref())
      await Promise.race([outbox.idle(), bound])
      await outbox.park()
      await spool.close()
    },
  }
}

function isUnclear(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'ledger_unavailable' && !wasRefused(error)
}

function reportShortfall(reply: Reply, events: LedgerEvents): void {
  const shortfall = numberAt(reply, 3)
  if (shortfall > 0 && reply.values[5] === 0) events.shortfall?.(shortfall)
}

function toBalance({ granted, spent, reserved, nowMs }: Identity): Balance {
  const balance = granted - spent
  const updated_at = Math.floor(nowMs / 1000)
  const available = balance - reserved
  return {
    object: 'billing.balance',
    unit: 'token',
    balance,
    reserved,
    available,
    granted,
    spent,
    updated_at,
  }
}
