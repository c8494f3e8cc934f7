// All thieves of money: each strategy once, the shield, a debt, a killed gateway, mixtures for as long as there is
// time, and requests one after the other; then the audit.

import { differencesOf } from '../../test/fixtures/money.ts'
import { seeded } from '../../test/fixtures/random.ts'
import type { Random } from '../../test/fixtures/random.ts'
import { playKill } from './kill.ts'
import { mixture } from './mixtures.ts'
import { play } from './play.ts'
import type { Result } from './play.ts'
import { playSequence } from './sequence.ts'
import type { Sequence } from './sequence.ts'
import { playDebt, playShield } from './shield.ts'
import { addresses, parameters, usageOff } from './strategies/asked-for.ts'
import { generated } from './strategies/generated.ts'
import { honest } from './strategies/honest.ts'
import { lastWord } from './strategies/last-word.ts'
import type { Strategy } from './strategy.ts'
import type { World } from './world.ts'

interface MoneyOptions {
  readonly seed: number
  /** The time for mixtures; the other parts run until they are done. */
  readonly mixtureMs: number
  readonly sequence: number
  /** Only strategies whose name contains this; by default all. */
  readonly only?: string
}

export interface MoneyReport {
  readonly results: readonly Result[]
  readonly mixtures: readonly Result[]
  readonly sequence: Sequence | undefined
  /** Differences that `tollgate audit` finds; empty when the journal agrees with the balances. */
  readonly audit: string
}

/** The written strategies, each once; mixtures.ts combines their parts into more. */
export const strategies: readonly Strategy[] = [
  ...honest,
  ...lastWord,
  ...usageOff,
  ...parameters,
  ...generated,
  ...addresses,
]

/** Strategies that run at the same time. More would slow each other down, and that would change the results. */
const atOnce = 4

export async function robMoney(world: World, options: MoneyOptions): Promise<MoneyReport> {
  const { seed, mixtureMs, only = '' } = options
  const random = seeded(seed)
  const isWanted = (name: string) => name.includes(only)
  const written = strategies.filter(({ name }) => isWanted(name))
  const results = await playAll(world, written, random)
  if (isWanted('a shield')) results.push(await playShield(world, random))
  if (isWanted('a debt')) results.push(...(await playDebt(world, random)))
  if (isWanted('a killed gateway')) results.push(...(await playKill(world, random)))
  const mixtures = isWanted('mixtures') ? await mix(world, random, mixtureMs) : []
  const sequence = isWanted('sequence') ? await playSequence(world, options.sequence) : undefined
  const differences = await differencesOf(world.gateways[1])
  const audit = differences.map((one) => JSON.stringify(one)).slice(0, 3)
  return { results, mixtures, sequence, audit: audit.join(', ') }
}

async function playAll(world: World, list: readonly Strategy[], random: Random): Promise<Result[]> {
  const results: Result[] = []
  let next = 0
  const worker = async () => {
    for (let i = next++; i < list.length; i = next++) {
      const strategy = list[i]
      // Each strategy has a random source of its own: what it draws must not depend on the order in which they run.
      if (strategy) results[i] = await play(world, strategy, seeded(random(2 ** 31)))
    }
  }
  await Promise.all(Array.from({ length: atOnce }, worker))
  return results
}

async function mix(world: World, random: Random, ms: number): Promise<readonly Result[]> {
  const end = performance.now() + ms
  const results: Result[] = []
  while (performance.now() < end) {
    const round = Array.from({ length: 4 * atOnce }, () => mixture(seeded(random(2 ** 31))))
    results.push(...(await playAll(world, round, random)))
  }
  return results
}

export function faultsOf({ results, mixtures, sequence, audit }: MoneyReport): readonly string[] {
  const bad = [...results, ...mixtures].filter(({ fault }) => fault !== '')
  return [
    ...bad.map(({ name, backend, ending, fault }) => `${name}, ${backend}, ${ending}: ${fault}`),
    ...(sequence?.fault ? [`one after the other: ${sequence.fault}`] : []),
    ...(audit ? [`audit: ${audit}`] : []),
  ]
}
