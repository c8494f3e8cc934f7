// The metrics of all processes as one: those of the workers that live, and what those counted that have ended.

import { joinMetrics, joinedText, lastingMetrics } from '../metrics.ts'
import type { Metrics, MetricsFormat, MetricsJson } from '../metrics.ts'
import type { Channel } from './channel.ts'

/** A worker, as far as it counts. */
export interface Counted {
  readonly channel: Pick<Channel, 'ask'>
  /** As it last told them. */
  metrics: MetricsJson | undefined
}

interface Counting {
  readonly serving: readonly Counted[]
}

interface Scrape {
  /** The supervisor's. */
  readonly own: Metrics
  readonly format?: MetricsFormat | undefined
}

export class Counts {
  #ended: MetricsJson = []

  /** Called when a worker has ended: counters never go back. */
  async keep({ metrics }: Pick<Counted, 'metrics'>): Promise<void> {
    if (!metrics) return
    this.#ended = [...this.#ended, ...lastingMetrics(metrics)]
    this.#ended = await joinMetrics([this.#ended])
  }

  /**
   * Takes each worker's counts as it last told them: so one that hangs or is just ending is counted, and none twice.
   */
  async text(fleet: Counting, { own, format = 'text' }: Scrape): Promise<string> {
    const [mine] = await Promise.all([own.json(), this.read(fleet)])
    const workers = fleet.serving.flatMap(({ metrics }) => (metrics ? [metrics] : []))
    return await joinedText([this.#ended, mine, ...workers], format)
  }

  /** Notes what each worker has counted. */
  async read(fleet: Counting): Promise<void> {
    const asked = fleet.serving.map(async (member) => {
      member.metrics = (await member.channel.ask('metrics', undefined, 2000)) as MetricsJson
    })
    await Promise.allSettled(asked)
  }
}
