// The metrics of all processes as one: those of the workers that live, and what those counted that have ended.

import { joinMetrics, joinedText, lastingMetrics } from '../metrics.ts'
import type { Metrics, MetricsJson } from '../metrics.ts'
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

export class Counts {
  #ended: MetricsJson = []

  /** Called when a worker has ended: counters never go back. */
  async keep({ metrics }: Pick<Counted, 'metrics'>): Promise<void> {
    if (!metrics) return
    this.#ended = [...this.#ended, ...lastingMetrics(metrics)]
    this.#ended = await joinMetrics([this.#ended])
  }

  async text(fleet: Counting, own: Metrics): Promise<string> {
    const workers = await this.read(fleet)
    return joinedText([this.#ended, await own.json(), ...workers])
  }

  /** Also notes what each worker counted, for when it ends. */
  async read(fleet: Counting): Promise<readonly MetricsJson[]> {
    const asked = fleet.serving.map(async (member) => {
      const metrics = (await member.channel.ask('metrics', undefined, 2000)) as MetricsJson
      member.metrics = metrics
      return metrics
    })
    const settled = await Promise.allSettled(asked)
    return settled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  }
}
