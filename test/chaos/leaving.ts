// Leaving saves no money (issue 13, items 1, 5, 7): a client that leaves at the last word, before the usage, pays the
// full cost. And an honest client that leaves pays little more than it used.

import t from 'tap'
import type { Test } from 'tap'
import { honest, textTokens } from '../fixtures/honest-backend.ts'
import type { Generation } from '../fixtures/honest-backend.ts'
import { imageUrl } from '../fixtures/images.ts'
import { languages } from '../fixtures/languages.ts'
import { leaveAtLastWord } from '../fixtures/leaving.ts'
import type { LeavingOptions } from '../fixtures/leaving.ts'
import { seeded } from '../fixtures/random.ts'

const words = (n: number) => 'word '.repeat(n)
const hi = [{ role: 'user', content: 'Hi' }]
/** An answer of one word. */
const short: Generation = { chunks: [{ delta: { content: 'yes' } }], tokens: 1 }

interface Attack extends LeavingOptions {
  readonly body: object
  readonly generation?: Generation
  /** The prompt tokens that the backend counts for the body; by default those of its texts and keys. */
  readonly prompt?: (body: Record<string, unknown>) => number | Promise<number>
  /** The least that is charged, as a share of the truth. */
  readonly least?: number
  readonly most?: number
}

const textsOf = ({ messages, prompt, tools, response_format: format }: Record<string, unknown>) =>
  textTokens([messages, prompt, tools, format])

function plays(t: Test, name: string, attack: Attack): void {
  const { body, generation = short, prompt = textsOf, least = 1, most = Infinity, ...rest } = attack
  void t.test(name, async (t) => {
    const { charged, truth } = await leaveAtLastWord(t, body, honest(prompt, generation), rest)
    t.comment(`${charged} charged, ${truth} used`)
    t.ok(truth > 0)
    t.ok(charged >= least * truth, `${charged} is at least ${least} × ${truth}`)
    t.ok(charged <= most * truth, `${charged} is at most ${most} × ${truth}`)
  })
}

const say = (key: string, n: number): Generation => ({
  chunks: Array.from({ length: n }, () => ({ delta: { [key]: ' word' } })),
  tokens: n,
})
const call = (of: object): Generation => ({
  chunks: Array.from({ length: 3000 }, () => ({ delta: { tool_calls: [{ index: 0, ...of }] } })),
  tokens: 3000,
})

const tool = { type: 'function', function: { name: 'f', description: words(24_000) } }
plays(t, 'a document in tools[].function.description', { body: { messages: hi, tools: [tool] } })

const schema = { type: 'object', description: words(24_000) }
const format = { type: 'json_schema', json_schema: { name: 'x', schema } }
plays(t, 'a document in response_format', { body: { messages: hi, response_format: format } })

const properties = Object.fromEntries(Array.from({ length: 4000 }, (_, i) => [`long_name_${i}`, 1]))
plays(t, 'a document of keys', {
  body: {
    messages: hi,
    tools: [{ type: 'function', function: { name: 'f', parameters: properties } }],
  },
})

const reasoning: Generation = { ...short, hidden: 12_000 }
plays(t, 'hidden reasoning, of a model that says so', {
  body: { messages: hi },
  generation: reasoning,
  model: 'hidden_reasoning: true, max_output_tokens: 20000',
})
plays(t, 'hidden reasoning, reported in every chunk', {
  body: { messages: hi },
  generation: { ...reasoning, isContinuous: true },
  target: 'continuous_usage_stats: true',
  model: 'max_output_tokens: 20000',
  most: 1,
})

const pictures = ['png', 'jpeg', 'gif', 'webp'] as const
const images = [...pictures, ...pictures].map((of) => ({
  type: 'image_url',
  image_url: { url: imageUrl(of, 5400, 5350) },
}))
plays(t, 'eight large images', {
  body: { messages: [{ role: 'user', content: images }] },
  prompt: () => (8 * 5400 * 5350) / 784,
})

plays(t, 'custom tools, whose input is a text', {
  body: { messages: hi },
  generation: call({ custom: { input: ' word' } }),
})
plays(t, 'arguments of a tool', {
  body: { messages: hi },
  generation: call({ function: { arguments: ' word' } }),
})
plays(t, 'thoughts under an unknown name', {
  body: { messages: hi },
  generation: say('thoughts', 2000),
})
plays(t, 'sound', {
  body: { messages: hi },
  generation: {
    chunks: Array.from({ length: 2000 }, () => ({ delta: { audio: { data: 'A'.repeat(160) } } })),
    tokens: 2000,
  },
})
plays(t, 'token ids without content', {
  body: { messages: hi },
  generation: {
    chunks: [{ delta: { content: '' }, token_ids: Array(1500).fill(77) }],
    tokens: 1500,
  },
})
plays(t, 'entries of logprobs without content', {
  body: { messages: hi },
  generation: {
    chunks: [{ delta: { content: '' }, logprobs: { content: Array(1500).fill({ token: 'x' }) } }],
    tokens: 1500,
  },
})

/** Letters are dear and spaces cheap: 64 samples at predictable places would see only spaces. */
const random = seeded(7)
const letters = Array.from({ length: 64 * 8900 }, () => String.fromCharCode(97 + random(26))).join(
  '',
)
const hidden = Array.from({ length: 64 }, (_, i) => {
  return ' '.repeat(1100) + letters.slice(i * 8900, (i + 1) * 8900)
}).join('')
plays(t, 'a long prompt, dear where samples were not', {
  body: { messages: [{ role: 'user', content: hidden }] },
  least: 0.95,
  most: 1.3,
})
plays(t, 'the same in another order', {
  body: { messages: [{ role: 'user', content: ' '.repeat(64 * 1100) + letters }] },
  least: 0.95,
  most: 1.3,
})

for (const [name, sentence] of Object.entries(languages)) {
  for (const size of [10, 400]) {
    plays(t, `honest: ${name}, ${size} sentences, and an answer`, {
      body: { messages: [{ role: 'user', content: sentence.repeat(size) }] },
      generation: { ...short, isSilent: true },
      least: 0.95,
      most: 1.3,
    })
  }
}
