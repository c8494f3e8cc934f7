// Puts the ledger of a gateway together: its own keys of the configuration, and what it reports to metrics and log.

import { join } from 'node:path'
import type { Config } from '../config/config.ts'
import { duration } from '../config/schema.ts'
import { settingsOf } from '../config/settings.ts'
import { timeZone } from '../config/words.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import type { RedisLink } from '../redis/connect.ts'
import { isOutage } from '../redis/scripts.ts'
import type { ObjectStore } from '../store/store.ts'
import { createLedger } from './ledger.ts'
import type { Ledger, LedgerEvents } from './ledger.ts'
import { Windows } from './windows.ts'

export const ledgerSettings = settingsOf('metering', {
  lease: duration()
    .prefault('30s')
    .describe(
      'How long a hold outlives its gateway: after this time the holds of a killed gateway end.',
    ),
  time_zone: timeZone()
    .default('UTC')
    .describe(
      'Where the days, weeks (from Monday) and months of allowances and budgets begin, such as Europe/Berlin.',
    ),
})

export interface LedgerParts {
  readonly redis: RedisLink
  readonly store: ObjectStore
  readonly metrics: Metrics
  readonly log: Log
  /** The plans as they are now; by default those of the configuration. */
  readonly plans?: () => Config['plans']
}

export interface OpenLedger {
  readonly ledger: Ledger
  close(): Promise<void>
}

export async function openLedger(config: Config, parts: LedgerParts): Promise<OpenLedger> {
  const { redis, store, log, plans = () => config.plans } = parts
  const ledger = await createLedger({
    link: redis,
    spoolDir: join(config.data, 'spool'),
    leaseMs: ledgerSettings.of(config).lease,
    windows: new Windows(ledgerSettings.of(config).time_zone),
    plans,
    archiveStore: store,
    events: eventsOf(parts),
  })
  return {
    ledger,
    async close() {
      await ledger.close()
      const { unwritten: entries } = ledger.spool
      if (entries > 0)
        log.error(
          { entries },
          'the disk refused entries of the spool: the next start cannot send them again',
        )
    },
  }
}

function eventsOf({ redis, metrics, log }: LedgerParts): LedgerEvents {
  return {
    command: (script, seconds) => metrics.redisSeconds.observe({ script }, seconds),
    reaped: (count) => metrics.holdsReaped.inc(count),
    implausible: (tokens) => metrics.implausible.inc(tokens),
    late: () => metrics.lateSettlements.inc(),
    spoolFailed: (err) =>
      log.error({ err }, 'the spool cannot be written: its entries wait in memory'),
    spoolWorks: (ms) => log.info({ ms: Math.round(ms) }, 'the spool is written again'),
    problem(message, cause) {
      // The outage log has already said why Redis takes no writes, and each new connection would meet that again.
      const isTold = redis.outage.refuses !== undefined && isOutage(cause, redis)
      if (!isTold) log.warn({ err: cause }, message)
    },
  }
}
