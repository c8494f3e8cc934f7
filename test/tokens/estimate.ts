// The estimate: nothing is free, and images, sound and token ids are charged by their own rules.

import t from 'tap'
import { endpoints } from '../../src/config/endpoints.ts'
import { countChoices, estimatePrompt } from '../../src/tokens/estimate.ts'
import { imageUrl } from '../fixtures/images.ts'
import { prices, promptOf } from '../fixtures/prompt.ts'

function estimate(body: object, bytesPerToken = 2.5): number {
  return estimatePrompt(promptOf(body), { ...prices, bytesPerToken }).tokens
}

t.test('all bytes of the body count, and 8 for a message', async (t) => {
  const body = { messages: [{ role: 'user', content: 'hello' }] }
  const bytes = JSON.stringify(body).length
  t.equal(estimate(body), Math.ceil(bytes / 2.5) + 8)
  t.equal(estimate(body, 4), Math.ceil(bytes / 4) + 8)
})

t.test('a megabyte of anything costs a megabyte', async (t) => {
  const much = 'x'.repeat(1_000_000)
  const messages = [{ role: 'user', content: 'hi' }]
  const bodies = [
    { messages, tools: [{ function: { description: much } }] },
    { messages, response_format: { json_schema: { description: much } } },
    { input: much },
    { prompt: much },
    { prompt: [much] },
    { messages: [{ role: 'user', content: much }] },
    { messages: [{ role: 'user', content: [{ type: 'text', text: much }] }] },
    {
      messages: [
        { role: 'user', content: [{ type: 'file', file: { file_data: `data:${much}` } }] },
      ],
    },
    {
      messages: [
        { role: 'user', content: [{ type: 'image_url', image_url: { url: `https://${much}` } }] },
      ],
    },
    {
      messages: [{ role: 'user', content: [{ type: 'text', image_url: { url: `data:${much}` } }] }],
    },
    { messages: [{ role: 'user', image_url: { url: `data:${much}` }, content: 'x' }] },
    { messages, tools: [{ type: 'image_url', image_url: { url: `data:${much}` } }] },
  ]
  for (const body of bodies) t.ok(estimate(body) >= 400_000, JSON.stringify(body).slice(0, 80))
})

t.test('an image costs by its pixels, and not by its bytes', async (t) => {
  const image = (url: string): object => ({ type: 'image_url', image_url: { url } })
  const body = (...parts: object[]) => ({ messages: [{ role: 'user', content: parts }] })
  const small = estimate(body(image(imageUrl('png', 10, 10))))
  const long = estimate(body(image(imageUrl('png', 1024, 1024, 1_000_000))))
  t.equal(small, long)
  t.ok(long > 1500 && long < 1600)
  const large = estimate(body(image(imageUrl('png', 8192, 4096))))
  t.equal(large - small, 31 * 1500)
  t.equal(
    estimate(body({ type: 'image_url', image_url: imageUrl('png', 10, 10) })),
    small - 3,
    'an address without braces',
  )
  const unknown = estimate(body(image(`data:image/avif;base64,${'A'.repeat(3000)}`)))
  t.ok(unknown > 64 * 1500 && unknown < 64 * 1500 + 100, 'what cannot be measured is the largest')
})

t.test('a report is believed up to a token a byte, and images at their largest', async (t) => {
  const most = (body: object) => estimatePrompt(promptOf(body), prices).most
  const messages = [{ role: 'user', content: 'x'.repeat(1000) }]
  t.ok(most({ messages }) > 1000 + 4096 && most({ messages }) < 1100 + 4096)
  const url = imageUrl('png', 10, 10, 1_000_000)
  const parts = [{ type: 'image_url', image_url: { url } }]
  const seen = most({ messages: [{ role: 'user', content: parts }] })
  t.ok(seen > 64 * 1500 && seen < 64 * 1500 + 5000, `${seen}`)
})

t.test('a rerank reads its query with each document', async (t) => {
  const query = 'q'.repeat(2500)
  const documents = Array.from({ length: 100 }, (_, i) => (i % 2 ? `d${i}` : { text: `d${i}` }))
  const tokens = estimate({ query, documents })
  t.ok(tokens > 100 * 1000 && tokens < 100 * 1050, `${tokens}`)
  t.ok(estimate({ documents: 'text', query }) < 1100)
})

t.test('each endpoint reads its other texts with each item of the required field', async (t) => {
  const long = 'x'.repeat(2500)
  const made = { required: 'text_2', media: ['text_1', 'text_2'], generates: false }
  const rows = [...endpoints, made].filter(({ generates }) => !generates)
  for (const { required: items, media } of rows) {
    const others = media.filter((name) => name !== items).map((name) => [name, long])
    const body = { ...Object.fromEntries(others), [items]: Array(100).fill('d') }
    const { tokens } = estimatePrompt({ ...promptOf(body), media, items }, prices)
    t.ok(tokens >= others.length * 100 * 1000, `${media.join(' ')}: ${tokens}`)
  }
})

t.test('parts of a list below `content` are a document each', async (t) => {
  const query = 'q'.repeat(2500)
  const content = Array.from({ length: 100 }, () => ({ type: 'text', text: 'd' }))
  const tokens = estimate({ query, documents: { content } })
  t.ok(tokens > 100 * 1000 && tokens < 100 * 1050, `${tokens}`)
})

t.test('an image among inputs or documents counts as an image', async (t) => {
  const url = imageUrl('png', 1024, 1024, 300_000)
  const image = { type: 'image_url', image_url: { url } }
  const [one, other] = [estimate({ input: [{ image: url }] }), estimate({ input: [image] })]
  t.ok(one > 1500 && one < 1540 && other > 1500 && other < 1540, `${one} ${other}`)
  const body = { query: { content: [image] }, documents: Array(100).fill('d') }
  const { tokens, most } = estimatePrompt(promptOf(body), prices)
  t.ok(tokens > 100 * 1500 && tokens < 100 * 1600, `${tokens}: the query's with each document`)
  t.ok(most > 100 * 64 * 1500 && most < 101 * 65 * 1500, `${most}`)
})

t.test('where no media may stand, and where fields are read by name, all is text', async (t) => {
  const documents = [{ image: imageUrl('png', 8, 8, 30_000) }]
  const chat = { ...promptOf({ messages: [], documents }), media: ['messages'] }
  t.ok(estimatePrompt(chat, prices).tokens > 16_000)
  t.ok(estimate({ query: 'q', documents, rank_fields: ['image'] }) > 16_000)
})

t.test('sound costs by its bytes, less than text', async (t) => {
  const data = 'A'.repeat(1_000_000)
  const tokens = estimate({
    messages: [
      { role: 'user', content: [{ type: 'input_audio', input_audio: { data, format: 'wav' } }] },
    ],
  })
  t.ok(tokens > 10_000 && tokens < 10_200, String(tokens))
})

t.test('token ids count one each, in a list and in lists of lists', async (t) => {
  const ids = Array.from({ length: 1000 }, (_, i) => 10_000 + i * 7)
  for (const body of [
    { input: ids },
    { prompt: ids },
    { input: [ids.slice(0, 500), ids.slice(500)] },
  ]) {
    const tokens = estimate(body)
    t.ok(tokens >= 1000 && tokens < 1020, String(tokens))
  }
})

t.test('no way of writing ids makes other text free', async (t) => {
  const text = 'x'.repeat(10_000)
  const ids = Array.from({ length: 10_000 }, () => 100_000)
  const written = `{"prompt":[${ids.map(() => '1e5').join(',')}],"suffix":"${text}"}`
  const { tokens } = estimatePrompt(promptOf(written), prices)
  t.ok(tokens >= 10_000 + 4000)
  const large = estimate({ prompt: [1e20, 5_000_000], suffix: text })
  t.ok(large >= 4000)
})

t.test('values of another type than expected count by their bytes', async (t) => {
  for (const messages of [null, 'text', 5, [null, 5, 'x', { content: [null, 5] }]]) {
    t.ok(estimate({ messages }) > 0)
  }
})

t.test('choices are n or best_of for each prompt of a list', async (t) => {
  t.equal(countChoices({}), 1)
  t.equal(countChoices({ n: 3 }), 3)
  t.equal(countChoices({ n: 2, best_of: 5 }), 5)
  t.equal(countChoices({ prompt: ['a', 'b'], n: 3 }), 6)
  t.equal(countChoices({ prompt: [[1, 2], [3]] }), 2)
  t.equal(countChoices({ prompt: [1, 2, 3] }), 1)
  t.equal(countChoices({ prompt: [], n: null }), 1)
})

t.test('an address counts as a large image, whatever it leads to', async (t) => {
  const written = { messages: [{ role: 'user', content: [{ video_url: 'https://x.test/a' }] }] }
  const without = estimatePrompt(promptOf(written), prices)
  const two = estimatePrompt({ ...promptOf(written), addresses: 2 }, prices)
  t.equal(two.tokens - without.tokens, 2 * 16 * 1500)
  t.equal(two.most - without.most, 2 * 64 * 1500)
})

t.test('an instruction counts with each text that it precedes', async (t) => {
  const instruct = 'x'.repeat(10_000)
  const documents = Array.from({ length: 100 }, () => 'a')
  const rerank = estimatePrompt(promptOf({ query: 'q', documents, instruct }), prices)
  t.ok(rerank.tokens > 100 * 4000 && rerank.most > 100 * 10_000)
  const embedding = estimatePrompt(promptOf({ input: documents, instruction: instruct }), prices)
  t.ok(embedding.tokens > 100 * 4000 && embedding.most > 100 * 10_000)
})

t.test('the report of a reranker with its own template is accepted', async (t) => {
  const documents = Array.from({ length: 1000 }, () => 'a')
  t.ok(estimatePrompt(promptOf({ query: 'q', documents }), prices).most > 1000 * 100)
})
