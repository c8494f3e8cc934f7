// The prepaid balance: who may spend, what is held, what was charged. All sums live in Redis, and only scripts change
// them. Here the ledger is put together, started and closed. The methods that a request calls are its parts' own:
// admission.ts identifies callers, and makes and extends holds; orders.ts settles them. Meanwhile leases.ts renews the holds of this
// process; outbox.ts has the writes that Redis must not lose. Promises: no balance is negative, no token appears or
// vanishes, each hold is charged exactly once, a crash loses nothing (docs/money.md). The ledger sets no prices.

import type { Plan } from '../config/config.ts'
import type { ObjectStore } from '../store/store.ts'
import { bookkeeping } from './bookkeeping.ts'
import type { Bookkeeping } from './bookkeeping.ts'
import { createClosing } from './closing.ts'
import type { Closing } from './closing.ts'
import { createConnectedClock, createRedisClock } from './clock.ts'
import type { ConnectedClock } from './clock.ts'
import { createDebtors } from './debtors.ts'
import type { Debtors } from './debtors.ts'
import { Admission } from './admission.ts'
import { createGate } from './gate.ts'
import { createHoldReader } from './hold-rows.ts'
import type { HoldReader } from './hold-rows.ts'
import { Leases } from './leases.ts'
import { ledgerScripts } from './library.ts'
import type { LedgerScripts } from './library.ts'
import { createSettle, releaseOrder, reportSettled, sendOrder } from './orders.ts'
import type { Settle } from './orders.ts'
import { Outbox } from './outbox.ts'
import { createScripts } from '../redis/scripts.ts'
import type { ScriptLink } from '../redis/scripts.ts'
import { soon } from '../sharing/patience.ts'
import { openSpool } from './spool.ts'
import type { Spool } from './spool.ts'
import type { SpoolEvents } from './spool-file.ts'
import { Windows } from './windows.ts'

export interface LedgerOptions {
  readonly link: ScriptLink
  readonly spoolDir: string
  readonly leaseMs: number
  /** Of allowances and budgets. Default: the days, weeks and months of UTC. */
  readonly windows?: Pick<Windows, 'text' | 'learn'>
  /** Called at each admission, because plans change with the configuration. */
  readonly plans: () => ReadonlyMap<string, Plan>
  /** Where old journal entries go. */
  readonly archiveStore: ObjectStore
  /** Default: 90 days. */
  readonly journalKeepMs?: number
  readonly events?: LedgerEvents
  /** This machine's clock, ms. */
  readonly now?: () => number
}

/** What the ledger reports to metrics and log. */
export interface LedgerEvents extends SpoolEvents {
  command?(script: string, seconds: number): void
  reaped?(count: number): void
  /** Balance tokens that a backend reported beyond what its request can have used. */
  implausible?(tokens: number): void
  late?(): void
  problem?(message: string, cause: unknown): void
}

type Admitting = Pick<Admission, 'identify' | 'identifyCounted' | 'admit' | 'extend' | 'planOf'>

export interface Ledger extends Admitting, Bookkeeping {
  readonly settle: Settle
  /** Whether paid work is admitted: not while Redis is away, not before this process has renewed its holds, and not while the spool is full. */
  readonly isOpen: boolean
  readonly leaseMs: number
  readonly holdsOpen: number
  /** Settlements and credits that Redis has not confirmed yet. */
  readonly writesOpen: number
  /** The orders that wait on disk, or in memory while the disk refuses them. */
  readonly spool: Pick<Spool, 'size' | 'unwritten' | 'isFailing'>
  /** Holds of any gateway, read from Redis. */
  readonly holds: HoldReader
  /** Which accounts owe something, and how much in all. */
  readonly debtors: Debtors
  /** The end of an account that is deleted. */
  readonly closing: Closing
  /** Settles the holds that are still open, for what their work has used by now. Waits at most `boundMs` for the replies to what was sent; the rest stays in the spool for the next start. */
  close(boundMs?: number): Promise<void>
}

const dayMs = 86_400_000
const takeUpMs = 5000

export async function createLedger(options: LedgerOptions): Promise<Ledger> {
  const parts = partsOf(options, await openSpool(options.spoolDir, options.events))
  const { admission, closing, debtors, gate, holds, leases, outbox, spool } = parts
  const settle = createSettle({ outbox, onEnded: (hold) => leases.remove(hold) })
  outbox.adopt(await spool.takeOver())
  leases.start()
  // The first request then finds the gate open. The wait is bounded, so that the process can report a Redis that refuses.
  await soon(gate.start(), takeUpMs)
  return {
    identify: admission.identify,
    identifyCounted: admission.identifyCounted,
    admit: admission.admit,
    extend: admission.extend,
    planOf: admission.planOf,
    settle,
    ...booksOf(options, parts),
    get isOpen() {
      return gate.isOpen && !spool.isFull
    },
    leaseMs: options.leaseMs,
    get holdsOpen() {
      return leases.size
    },
    get writesOpen() {
      return outbox.unanswered
    },
    spool,
    holds,
    debtors,
    closing,
    async close(boundMs = 5000) {
      leases.stop()
      gate.stop()
      // A slow machine may still be counting what these have used, and the process ends before that is done: so they are
      // settled by their progress.
      for (const hold of leases.holds) void settle(hold, { ...hold.progress, estimated: true })
      await soon(outbox.idle(), boundMs)
      await outbox.park()
      await spool.close()
    },
  }
}

type Parts = ReturnType<typeof partsOf>

function booksOf({ link, archiveStore, journalKeepMs = 90 * dayMs }: LedgerOptions, parts: Parts) {
  const { clock, scripts, spool, outbox, gate, admission } = parts
  const told = { link, scripts, spool, outbox, gate, admission, now: clock.now }
  return bookkeeping({ ...told, store: archiveStore, journalKeepMs })
}

function partsOf(options: LedgerOptions, spool: Spool) {
  const { link, leaseMs, plans, windows = new Windows('UTC'), events = {} } = options
  const { clock, connected, scripts } = scriptsWithClocks(options)
  const debtors = createDebtors(link.client)
  const onImplausible = (tokens: number) => events.implausible?.(tokens)
  const onProblem = (message: string, cause: unknown) => events.problem?.(message, cause)
  const onReaped = (count: number) => events.reaped?.(count)
  const outbox = new Outbox({
    send: (order, isFirst) => sendOrder(scripts, order, isFirst),
    isUp: () => link.up,
    connected,
    spool,
    onSettled: (reply, order) =>
      reportSettled(reply, order, { onOwing: debtors.note, onImplausible }),
    onLate: () => events.late?.(),
    onProblem,
  })
  const leases: Leases = new Leases({
    scripts,
    leaseMs,
    isUp: () => link.up,
    // Called only for holds, which `admission` below makes.
    openAgain: async (hold) => {
      if (!(await admission.openAgain(hold))) hold.stop('lost')
    },
    onTick: eachTick({ link, outbox, spool, connected }),
  })
  const recover = recovery({ scripts, leases, outbox })
  const gate = createGate(link, { onProblem, connected, recover })
  const admission = new Admission({
    scripts,
    clock,
    leaseMs,
    plans,
    windows,
    gate,
    spool,
    onAdmitted: (hold) => leases.add(hold),
    onUnclear: ({ ref, hmac, holdId }) => void outbox.settle(releaseOrder(ref, hmac, holdId)),
    onReaped,
    onOwing: debtors.note,
  })
  const holds = createHoldReader(link.client)
  const closing = createClosing({ scripts, leaseMs, gate, onReaped })
  return { clock, scripts, spool, outbox, leases, gate, admission, debtors, holds, closing }
}

/** The scripts, with the clocks that are set by their replies. */
function scriptsWithClocks({ link, events = {}, now }: LedgerOptions) {
  const clock = createRedisClock(now)
  const connected = createConnectedClock(link)
  const scripts = createScripts({
    link,
    library: ledgerScripts,
    onReply(name, seconds, nowMs) {
      if (nowMs > 0) clock.learn(nowMs)
      connected.good()
      events.command?.(name, seconds)
    },
  })
  return { clock, connected, scripts }
}

interface RecoveryOptions {
  readonly scripts: LedgerScripts
  readonly leases: Leases
  readonly outbox: Outbox
}

/** What has to be done before the gate opens. */
function recovery({ scripts, leases, outbox }: RecoveryOptions): () => Promise<void> {
  return async () => {
    await scripts.load()
    // Leases first, because other gateways may reap. Then the replay: it may bring the money that lost holds need.
    const lost = await leases.renew()
    await outbox.replay()
    await leases.reopen(lost)
  }
}

interface TickOptions {
  readonly link: ScriptLink
  readonly outbox: Outbox
  readonly spool: Spool
  readonly connected: ConnectedClock
}

/** What is done after each round of checkpoints. */
function eachTick({ link, outbox, spool, connected }: TickOptions): () => Promise<void> {
  let last = performance.now()
  return async () => {
    await spool.retry()
    // An idle gateway gets no replies, and without replies the age of the outbox entries does not grow.
    if (link.up && outbox.size > 0) {
      await link.client.ping().then(() => connected.good())
    }
    await outbox.sweep()
    if (performance.now() - last < 10_000) return
    last = performance.now()
    await spool.touch()
    outbox.adopt(await spool.takeOver())
  }
}
