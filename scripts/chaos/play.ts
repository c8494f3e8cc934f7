// Ten minutes of bad luck: customers, and faults by chance, of which two may be at the same time. Then all is healed, the
// gateways come to rest, and every promise is checked.

import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../../test/fixtures/random.ts'
import { oneOf } from './fault.ts'
import type { Fault } from './fault.ts'
import { faultsOf } from './faults.ts'
import type { Outcomes } from './outcomes.ts'
import type { Place } from './place.ts'
import type { World } from './world.ts'

export interface Playing {
  readonly seconds: number
  readonly random: Random
  /** Faults whose name has this text. */
  readonly only: string
  readonly outcomes: Outcomes
}

const longestCalmMs = 1500

/** Resolves when all is healed. */
export async function play(
  world: World,
  { seconds, random, only, outcomes }: Playing,
): Promise<void> {
  const chosen = faultsOf(world).filter(({ name }) => name.includes(only))
  const running = new Set<Promise<void>>()
  const touched = new Set<string>()
  const busy = new Set<Place>()
  const endsAt = performance.now() + 1000 * seconds
  const strike = async (fault: Fault, place: Place) => {
    const key = fault.touches
    const ms = random(fault.atMost)
    if (key !== 'gateway') touched.add(key)
    else busy.add(place)
    const end = outcomes.begin(fault.name)
    await fault.run({ ms, place, random })
    end()
    touched.delete(key)
    if (key === 'gateway') busy.delete(place)
  }
  while (performance.now() < endsAt) {
    const fault = oneOf(chosen, random)
    const place = oneOf(world.places, random)
    const isFree = !touched.has(fault.touches) && !busy.has(place) && (fault.suits?.(place) ?? true)
    if (isFree && running.size < 2) {
      const one = strike(fault, place)
      running.add(one)
      void one.then(
        () => running.delete(one),
        () => undefined,
      )
    }
    await Promise.race([pause(random(longestCalmMs)), failureOf(running)])
  }
  await Promise.all(running)
  await world.state.healthy()
}

/** Rejects when one of them does; otherwise it never ends. */
function failureOf(running: ReadonlySet<Promise<void>>): Promise<never> {
  return new Promise((_resolve, reject) => {
    for (const one of running) one.catch(reject)
  })
}
