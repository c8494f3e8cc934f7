// Leaves at the last word (finding 1): a client that leaves before the report would not pay for what only the report
// tells. The same with a backend that never reports.

import type { Random } from '../../../test/fixtures/random.ts'
import { documents, images, permuted, plain, prose, sound } from '../loads.ts'
import { finish, last, made, stays, streamed } from '../strategy.ts'
import type { Strategy } from '../strategy.ts'

const words = 24_000
const item = 1

const everyDocument = Object.entries(documents).flatMap(([name, document]): Strategy[] => {
  const body = (random: Random) => ({ ...document(random, words), ...streamed })
  return [
    { name, item, model: 'end', leaving: last, body },
    { name, item, model: 'never', leaving: stays, body },
  ]
})

const long = (random: Random) => ({ ...plain(random, 20), stream: true, max_tokens: 1500 })
/** 12,000 of these tokens are reasoning, and are not sent. */
const thoughtful = (random: Random) => ({ ...long(random), max_tokens: 13_500 })
const picture = () => ({ ...images(8, 5376), ...streamed })
const dear = (random: Random) => ({ ...permuted(random, 96_000), ...streamed })
const document = (random: Random) => {
  return { ...documents['tools[].function.description'](random, words), ...streamed }
}
const lowRate = (random: Random) => ({ ...sound(random, 200_000), ...streamed })
const input = (random: Random) => ({ input: [prose(random, 20_000)] })

const early = { at: 'time', ms: 30 } as const

const everyMount = (['v1', 'session', 'cancel'] as const).flatMap((mount): Strategy[] => [
  { name: 'hidden reasoning', item, model: 'hidden', mount, leaving: last, body: thoughtful },
  { name: 'document, usage on demand', item, model: 'asked', mount, leaving: last, body: document },
])

export const lastWord: readonly Strategy[] = [
  ...everyDocument,
  ...everyMount,
  { name: '8 large images', item, model: 'end', leaving: last, body: picture },
  { name: '8 large images', item, model: 'end', mount: 'cancel', leaving: last, body: picture },
  { name: '8 large images', item, model: 'end', leaving: finish, body: picture },
  { name: '8 large images', item, model: 'each', leaving: last, body: picture },
  { name: "custom tools' input", item, model: 'custom', leaving: last, body: long },
  { name: 'arguments of a tool', item, model: 'tools', leaving: last, body: long },
  { name: 'sound as the answer', item, model: 'audio', leaving: last, body: long },
  { name: 'sound of a low bit rate', item, model: 'end', leaving: last, body: lowRate },
  { name: 'token_ids without content', item, model: 'ids', leaving: last, body: long },
  { name: 'a field nobody knows', item, model: 'unknown', leaving: last, body: long },
  { name: 'a permuted prompt', item, model: 'end', leaving: last, body: dear },
  { name: 'a permuted prompt', item, model: 'never', leaving: stays, body: dear },
  { name: 'left before the first word', item, model: 'end', leaving: early, body: document },
  { name: 'left before the first word', item, model: 'hidden', leaving: early, body: thoughtful },
  { name: 'hidden reasoning', item, model: 'hidden-asked', leaving: last, body: thoughtful },
  {
    name: 'embeddings',
    item,
    model: 'embeddings',
    mount: 'embeddings',
    leaving: made,
    body: input,
  },
  {
    name: 'embeddings',
    item,
    model: 'embeddings-never',
    mount: 'embeddings',
    leaving: stays,
    body: input,
  },
]
