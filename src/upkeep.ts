// What is done at intervals. Each process reads its gauges. One process, for all, archives the journal, puts sessions to
// sleep, sums up what accounts owe and have, and counts those with little left. Also what a process tells of itself when
// it is asked.

import { lowBalance } from './accounts/low-balance.ts'
import { createScripts, isOutage } from './redis/scripts.ts'
import { Rounds, restMs } from './sessions/asleep/rounds.ts'
import { sessionScripts } from './sessions/library.ts'
import type { Config } from './config/config.ts'
import type { Condition, Gateway, TargetReport } from './plugin.ts'

type Watched = Pick<Gateway, 'ledger' | 'metrics' | 'redis' | 'log'>

const hourMs = 3_600_000
const owedEveryMs = 60_000

function createEvery(undo: AsyncDisposableStack) {
  return (ms: number, work: () => void) => {
    const timer = setInterval(work, ms).unref()
    undo.defer(() => clearInterval(timer))
  }
}

/** The gauges of this process. */
export function watchGauges(
  { ledger, metrics, redis, log }: Watched,
  undo: AsyncDisposableStack,
): void {
  let dropped = 0
  const look = () => {
    metrics.logLinesDropped.inc(log.dropped - dropped)
    dropped = log.dropped
    metrics.logWaiting.set(log.waiting)
    metrics.holdsOpen.set(ledger.holdsOpen)
    metrics.writesOpen.set(ledger.writesOpen)
    metrics.spoolEntries.set(ledger.spool.size)
    metrics.spoolUnwritten.set(ledger.spool.unwritten)
    metrics.redisUp.set(redis.up ? 1 : 0)
  }
  look()
  createEvery(undo)(1000, look)
}

/** Redis has an alert of its own: while it is away, the log does not fill with what could not be done. */
function warnUnlessAway({ redis, log }: Pick<Watched, 'redis' | 'log'>) {
  return (what: string) => (err: unknown) => {
    if (redis.up && !isOutage(err, redis)) log.warn({ err }, what)
  }
}

interface Books extends Watched, Pick<Gateway, 'store'> {
  /** As it is now. */
  readonly configNow: () => Pick<Config, 'plugins'>
}

/** For all accounts; one process of a gateway does this. */
export function keepBooks(
  { ledger, metrics, redis, log, configNow }: Books,
  undo: AsyncDisposableStack,
): void {
  const every = createEvery(undo)
  const notDone = warnUnlessAway({ redis, log })
  const unread = notDone('the sum that accounts owe could not be read')
  const readOwed = () => {
    ledger.debtors.sum().then((sum) => metrics.owed.set(sum), unread)
  }
  readOwed()
  every(owedEveryMs, readOwed)
  const readBalances = () => {
    const { low_balance: threshold } = lowBalance.of(configNow())
    ledger.sumBalances(threshold).then(({ balance, low }) => {
      metrics.balance.set(balance)
      metrics.lowAccounts.set(low)
    }, notDone('the balances of all accounts could not be read'))
  }
  readBalances()
  every(hourMs, () => {
    readBalances()
    ledger
      .archive()
      .catch(notDone('the journal could not be archived: the gateway tries again in an hour'))
    ledger.debtors.findAll().catch(unread)
  })
}

/** For the sessions of all accounts, every hour; one process of a gateway does this. Returns one hour's work, for tests. */
export function restSessions(
  { redis, store, log, metrics, configNow }: Books,
  undo: AsyncDisposableStack,
): () => Promise<void> {
  const notDone = warnUnlessAway({ redis, log })
  const scripts = createScripts({ link: redis, library: sessionScripts })
  const rounds = new Rounds({ redis: redis.client, scripts, store, log, metrics })
  undo.defer(() => rounds.close())
  const round = async () => {
    try {
      const { slept, removed } = await rounds.run(restMs(configNow()))
      if (slept + removed > 0) log.info({ slept, removed }, 'sessions went to sleep in the store')
    } catch (err) {
      notDone('sessions could not go to sleep: the gateway tries again in an hour')(err)
    }
  }
  createEvery(undo)(hourMs, () => void round())
  return round
}

/** Of this process alone: whether it can serve, and what is wrong. */
export function conditionOf({ redis, ledger, state }: Gateway): Condition {
  const { refuses, refusesAll } = redis.outage
  return {
    isReady: redis.up && !refusesAll && ledger.isOpen && !state.draining,
    redis: refuses ? `refuses to write (${refuses})` : redis.up ? 'ok' : 'not reachable',
    ledger: ledger.isOpen ? 'ok' : 'not open',
    spool: spoolState(ledger.spool),
  }
}

function spoolState({ isFailing, unwritten }: Gateway['ledger']['spool']): string {
  return isFailing ? `the disk refuses writes; ${unwritten} entries wait in memory` : 'ok'
}

/** What this process knows of each target. */
export function reportTargets({ config, targets }: Gateway): readonly TargetReport[] {
  return [...config.models.values()].flatMap((model) =>
    targets.statesOf(model).map((known) => ({
      model: model.id,
      name: known.target.name,
      ...known.show(),
      open: known.open,
      failures: known.breaker.failures,
      queue: targets.modelStateOf(model).line.size,
    })),
  )
}

/** Targets that are no longer configured are not shown. */
export function measureTargets(gateway: Gateway): void {
  const { targetUp, targetQueue } = gateway.metrics
  targetUp.reset()
  targetQueue.reset()
  for (const { model, name, state, queue } of reportTargets(gateway)) {
    targetQueue.set({ model }, queue)
    targetUp.set({ model, target: name }, state === 'up' ? 1 : 0)
  }
}
