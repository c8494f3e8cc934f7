// What a request needs of its account, and what a hold lets it use: the sums, without Redis.

import t from 'tap'
import type { Model } from '../../src/config/config.ts'
import { Hold } from '../../src/ledger/hold.ts'
import type { HoldFields } from '../../src/ledger/hold.ts'
import { grantedBy, sizesOf } from '../../src/ledger/want.ts'
import type { Want } from '../../src/ledger/want.ts'

/** An input token costs 1, an output token 2. */
const price = { input: 1_000_000n, cachedInput: 1_000_000n, output: 2_000_000n, request: 0n }
const model = { id: 'm', price } as Model

const wantOf = (more: Partial<Want>): Want => ({
  model,
  promptTokens: 10,
  countPrompt: async () => 10,
  mostPrompt: 10,
  outputPerChoice: 100,
  choices: 1,
  isSeenAsItComes: true,
  fields: { prompt: 'messages', bound: undefined },
  ...more,
})
const full = { minOutputTokens: 16, slice: undefined }
const sliced = { minOutputTokens: 16, slice: 64 }
const bound = { prompt: 'messages', bound: 'max_tokens' }

const held = (amount: number, more: Partial<HoldFields> = {}) =>
  new Hold({ countedTokens: 1000, isShadow: false, ...more } as HoldFields, amount)

t.test(
  'a request needs its prompt and all of its output, at least the fewest tokens of each choice',
  async (t) => {
    t.match(sizesOf(wantOf({}), full), { amount: 210, min: 42, outputTokens: 100, isSliced: false })
    t.match(sizesOf(wantOf({ choices: 3 }), full), { amount: 610, min: 106, outputTokens: 300 })
    t.match(sizesOf(wantOf({ outputPerChoice: 5 }), full), { amount: 20, min: 20 })
    t.match(sizesOf(wantOf({ outputPerChoice: 0, choices: 0 }), full), { amount: 10, min: 10 })
  },
)

t.test('in slices, a stream needs its prompt and one slice', async (t) => {
  t.match(sizesOf(wantOf({}), sliced), { amount: 138, min: 42, outputTokens: 100, isSliced: true })
  const small = { amount: 20, isSliced: true }
  t.match(sizesOf(wantOf({ outputPerChoice: 5 }), sliced), small, 'no more than it may have')
  const many = sizesOf(wantOf({ choices: 5 }), sliced)
  t.match(many, { amount: 170, min: 170 }, 'no less than the fewest tokens of all choices')
  const whole = sizesOf(wantOf({ isSeenAsItComes: false }), sliced)
  t.match(whole, { amount: 210, isSliced: false }, 'what is not seen as it comes is held in full')
})

t.test(
  'a limit of tokens a minute lowers the output unless the client has bounded it',
  async (t) => {
    t.equal(sizesOf(wantOf({}), full).leastOutputTokens, 16)
    t.equal(sizesOf(wantOf({ fields: bound }), full).leastOutputTokens, 100)
  },
)

t.test('a request that can never fit hears what to change', async (t) => {
  const says = (want: Partial<Want>, limit: number) => sizesOf(wantOf(want), full).neverFits(limit)
  t.match(says({ fields: bound }, 60), {
    param: 'max_tokens',
    message: /Lower max_tokens to 50 or/,
  })
  t.match(says({ fields: bound, choices: 2 }, 60), { message: /Lower max_tokens to 25 or less/ })
  t.match(says({ choices: 60 }, 60), { param: 'n', message: /fewer than 60 choices/ })
  const texts = { prompt: 'prompt', bound: undefined }
  t.match(says({ choices: 60, fields: texts }, 60), { param: 'prompt', message: /fewer than 60/ })
  const shorten = { param: 'messages', message: /"messages" counts as 10 tokens. Shorten it/ }
  t.match(says({ fields: bound }, 10), shorten)
  t.match(says({ choices: 3 }, 10), shorten, 'fewer choices would not help')
})

t.test('a hold grants what it pays for, and no more than was wanted or counted', async (t) => {
  const granted = (hold: Hold, more: Partial<Want> = {}) => {
    const want = wantOf(more)
    return grantedBy(hold, want, sizesOf(want, full))
  }
  t.equal(granted(held(210)), 100)
  t.equal(granted(held(61)), 25)
  t.equal(granted(held(610), { choices: 3 }), 100)
  t.equal(granted(held(161), { choices: 3 }), 25)
  t.equal(granted(held(210, { countedTokens: 40 })), 30)
  t.equal(granted(held(610, { countedTokens: 41 }), { choices: 3 }), 10)
  t.equal(granted(held(0, { isShadow: true, countedTokens: 0 })), 100, 'shadow mode bounds nothing')
})

t.test('the amount of a hold in slices sets no bound, but a limit of tokens does', async (t) => {
  const want = wantOf({})
  const granted = (hold: Hold) => grantedBy(hold, want, sizesOf(want, sliced))
  t.equal(granted(held(30)), 100)
  t.equal(granted(held(30, { countedTokens: 40 })), 30)
})
