// Thieves that combine several ways: the seed decides what is sent, to which backend, and how the client leaves.

import type { Random } from '../../test/fixtures/random.ts'
import type { Leaving } from './client.ts'
import { documents, images, permuted, plain } from './loads.ts'
import type { Body } from './loads.ts'
import type { ModelName } from './models.ts'
import { effects, wishes } from './parameters.ts'
import { usageTricks } from './strategies/asked-for.ts'
import type { Mount, Strategy } from './strategy.ts'

const models: readonly ModelName[] = [
  'end',
  'each',
  'asked',
  'never',
  'hidden',
  'finish',
  'tools',
  'custom',
  'audio',
  'ids',
  'unknown',
  'go',
]

const loads: Readonly<Record<string, (random: Random) => Body>> = {
  words: (random) => plain(random, 1 + random(3000)),
  images: (random) => images(1 + random(4), 64 + random(4000)),
  permuted: (random) => permuted(random, 66_000 + random(20_000)),
  ...Object.fromEntries(
    Object.entries(documents).map(([name, document]) => [
      name,
      (random: Random) => document(random, 1 + random(8000)),
    ]),
  ),
}

const leavings: readonly ((random: Random) => Leaving)[] = [
  () => ({ at: 'end' }),
  (random) => ({ at: 'content', nth: 1 + random(40) }),
  () => ({ at: 'last' }),
  () => ({ at: 'finish' }),
  (random) => ({ at: 'time', ms: 20 + random(200) }),
]

/** With the small balances, requests are refused or end up owed. */
const balances = [20_000_000, 20_000_000, 50_000, 5000]

const mounts: readonly Mount[] = ['v1', 'v1', 'v1', 'session', 'cancel']

export function mixture(random: Random): Strategy {
  const model = oneOf(models, random)
  const load = oneOf(Object.keys(loads), random)
  const mount = oneOf(mounts, random)
  const isWhole = mount === 'v1' && random(5) === 0
  const leaving = oneOf(leavings, random)(random)
  const wish = random(8) === 0 ? oneOf(Object.keys(effects), random) : undefined
  const trick = mount === 'v1' && !isWhole && random(4) === 0
  const options = trick ? oneOf(Object.keys(usageTricks), random) : undefined
  const words = [load, isWhole && 'unstreamed', wish, options && `usage off by ${options}`]
  return {
    name: words.filter(Boolean).join(' + '),
    item: wish ? 4 : options ? 3 : 1,
    model,
    mount,
    balance: oneOf(balances, random),
    leaving: isWhole && leaving.at !== 'end' ? { at: 'made' } : leaving,
    body: (source) => {
      const fields = {
        ...loads[load]?.(source),
        ...(isWhole ? {} : { stream: true }),
        max_tokens: (model === 'hidden' ? 20 : 1) * (16 + source(600)),
        ...(mount === 'v1' && source(4) === 0 && { n: 2 + source(3) }),
        ...(wish && { [wish]: wishes[wish] }),
      }
      if (!options) return fields
      const text = JSON.stringify({ model, ...fields })
      return `${text.slice(0, -1)},"stream_options":${usageTricks[options]}}`
    },
  }
}

function oneOf<T>(list: readonly T[], random: Random): T {
  return list[random(list.length)] as T
}
