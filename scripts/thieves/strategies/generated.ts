// Rerank that counts its query once (finding 5); generated output that is not charged (6); backends without bound,
// several choices and Completions (7).

import type { Random } from '../../../test/fixtures/random.ts'
import { plain, prose, ranking } from '../loads.ts'
import { last, made, stays } from '../strategy.ts'
import type { Strategy } from '../strategy.ts'

const documents = 200
const rank = (random: Random) => ranking(random, documents)
const few = (random: Random) => ({ ...plain(random, 20), stream: true, max_tokens: 16 })
const long = (random: Random) => ({ ...plain(random, 20), max_tokens: 1000 })
const text = (random: Random) => ({ prompt: prose(random, 200), stream: true, max_tokens: 400 })
const texts = (random: Random) => ({
  ...text(random),
  prompt: [prose(random, 9), prose(random, 900), prose(random, 90)],
})

const rerank = {
  name: `one query, ${documents} documents`,
  item: 5,
  model: 'rerank',
  mount: 'rerank',
  body: rank,
} as const

const left = { name: 'unstreamed, left at its end', item: 6, leaving: made, body: long } as const
const unbound = { item: 7, leaving: stays, body: few } as const
const completions = { item: 7, model: 'completions', mount: 'completions' } as const

export const generated: readonly Strategy[] = [
  { ...rerank, leaving: stays },
  { ...rerank, leaving: stays, name: 'the same for little money', balance: 9000 },
  { ...rerank, leaving: made },
  { ...rerank, leaving: stays, model: 'rerank-never' },
  { name: 'too large an answer', item: 6, model: 'huge', leaving: stays, body: long },
  { ...left, model: 'end' },
  { ...left, model: 'never' },
  { ...left, model: 'finish' },
  { ...left, model: 'hidden', body: (random) => ({ ...long(random), max_tokens: 13_500 }) },
  { ...unbound, name: 'a backend without bound', model: 'boundless' },
  { ...unbound, name: 'output for nothing', model: 'free-output' },
  { ...unbound, name: 'output for next to nothing', model: 'cheap-output' },
  {
    ...unbound,
    name: 'n = 2 without bound',
    model: 'boundless',
    body: (random) => ({ ...few(random), n: 2 }),
  },
  {
    name: 'n = 4',
    item: 7,
    model: 'end',
    leaving: last,
    body: (random) => ({ ...plain(random, 20), stream: true, max_tokens: 300, n: 4 }),
  },
  { ...completions, name: 'completions', leaving: last, body: text },
  { ...completions, name: 'completions, 3 prompts', leaving: last, body: texts },
  {
    ...completions,
    name: 'completions, best_of 4',
    leaving: made,
    body: (random) => ({ prompt: prose(random, 200), max_tokens: 400, best_of: 4 }),
  },
]
