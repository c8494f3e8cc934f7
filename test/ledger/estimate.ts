// The estimate: nothing rides free, and images, sound and token ids are charged as what they are.

import t from 'tap'
import { countChoices, estimatePrompt } from '../../src/ledger/estimate.ts'

function estimate(body: Record<string, unknown>, bytesPerToken = 2.5): number {
  const bodyBytes = Buffer.byteLength(JSON.stringify(body))
  return estimatePrompt(body, { bodyBytes, bytesPerToken })
}

t.test('all bytes of the body count, and 8 a message', async (t) => {
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

t.test('an image costs 1,500 and not its bytes', async (t) => {
  const image = (url: string): object => ({ type: 'image_url', image_url: { url } })
  const body = (...parts: object[]): Record<string, unknown> => ({
    messages: [{ role: 'user', content: parts }],
  })
  const small = estimate(body(image('data:image/png;base64,AA')))
  const large = estimate(body(image(`data:image/png;base64,${'A'.repeat(1_000_000)}`)))
  t.equal(small, large)
  t.ok(large > 1500 && large < 1600)
  t.ok(estimate(body(image('https://x.test/a.png'), image('https://x.test/b.png'))) > 3000)
})

t.test('sound costs by its bytes, less than text', async (t) => {
  const data = 'A'.repeat(1_000_000)
  const tokens = estimate({
    messages: [
      { role: 'user', content: [{ type: 'input_audio', input_audio: { data, format: 'wav' } }] },
    ],
  })
  t.ok(tokens > 5000 && tokens < 5200, String(tokens))
})

t.test('token ids count one each, in one list and in lists of lists', async (t) => {
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
  const tokens = estimatePrompt({ prompt: ids }, { bodyBytes: written.length, bytesPerToken: 2.5 })
  t.ok(tokens >= 10_000 + 4000)
  const large = estimate({ prompt: [1e20, 5_000_000], suffix: text })
  t.ok(large >= 4000)
})

t.test('values that are not what they should be count by their bytes', async (t) => {
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
