// What a fault is. Each lasts as long as it is told, and is healed by its own end, so that two can be at the same time.

import type { Random } from '../../test/fixtures/random.ts'
import type { Place } from './place.ts'

export interface Fault {
  readonly name: string
  /** Faults on one of these are never at the same time. */
  readonly touches: 'gateway' | 'redis' | 'store' | 'backend'
  /** In ms. */
  readonly atMost: number
  /** By default, it can concern any gateway. */
  suits?(place: Place): boolean
  /** Breaks, waits, and heals. */
  run(chance: Chance): Promise<void>
}

export interface Chance {
  /** How long it lasts. */
  readonly ms: number
  /** The gateway that it concerns; no other fault concerns it now. */
  readonly place: Place
  readonly random: Random
}

export function oneOf<T>(all: readonly T[], random: Random): T {
  const one = all[random(all.length)]
  if (one === undefined) throw new Error('There is nothing to choose from')
  return one
}
