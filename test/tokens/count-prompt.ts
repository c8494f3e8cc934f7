// Prompts counted for a backend that reports nothing: the whole body, by the tokenizer, and media by their own rules.

import t from 'tap'
import { countPrompt as count } from '../../src/tokens/count-prompt.ts'
import { countTokens } from '../../src/tokens/count.ts'
import { estimatePrompt } from '../../src/tokens/estimate.ts'
import { imageUrl } from '../fixtures/images.ts'
import { prices, promptOf } from '../fixtures/prompt.ts'

function countPrompt(body: string | object, addresses = 0): Promise<number> {
  const prompt = { ...promptOf(body), addresses }
  const { facts } = estimatePrompt(prompt, prices)
  return count({ body: prompt.body, members: prompt.scan.members, facts })
}
const said = (content: unknown) => ({ messages: [{ role: 'user', content }] })
/** `word` is a token, and so is its space. */
const words = (n: number) => 'word '.repeat(n)

t.test('text costs its tokens, and a message its template', async (t) => {
  t.equal(await countPrompt({ prompt: 'hello world' }), 4, 'with its quotes')
  const cost = await countPrompt(said('hello world'))
  t.ok(cost >= 6 && cost <= 12, `${cost}`)
  const part = { type: 'text', text: words(100) }
  const parts = await countPrompt(said([part]))
  t.ok(parts >= 100 && parts < 120, `${parts}`)
})

t.test('numbers and words beside the prompt cost nothing', async (t) => {
  const body = said(words(50))
  const all = { model: 'x', stream: true, temperature: 0.5, seed: 123456789, ...body }
  t.equal(await countPrompt(all), await countPrompt(body))
})

t.test('a document counts wherever it is, keys too', async (t) => {
  const messages = [{ role: 'user', content: 'hi' }]
  const document = words(5000)
  // A key has a limit of 4 KiB.
  const keys = Object.fromEntries(Array.from({ length: 10 }, (_, i) => [`${i} ${words(500)}`, 1]))
  const bodies: Record<string, object> = {
    description: { messages, tools: [{ type: 'function', function: { description: document } }] },
    schema: { messages, response_format: { json_schema: { schema: { description: document } } } },
    key: { messages, tools: [{ function: { parameters: { properties: keys } } }] },
    'key of a message': { messages: [{ role: 'user', content: 'hi', ...keys }] },
    'unknown text': { messages, document },
    suffix: { prompt: 'x', suffix: document },
    'a list': { input: [document, document] },
    escaped: { messages: [{ role: 'user', content: document }], user: 'x' },
  }
  for (const [name, body] of Object.entries(bodies)) {
    const counted = await countPrompt(body)
    const truth = name === 'a list' ? 10_000 : 5000
    t.ok(counted >= truth && counted < truth * 1.05 + 70, `${name}: ${counted}`)
  }
})

t.test('what only looks like a message or a part is counted with all its JSON', async (t) => {
  for (const one of [
    { role: 'a', content: '' },
    { type: 'text', text: '' },
  ]) {
    const many = Array(1000).fill(one)
    const truth = await countTokens(JSON.stringify(many))
    const bodies: Record<string, object> = {
      tools: { ...said('hi'), tools: [{ type: 'function', function: { parameters: many } }] },
      documents: { ...said('hi'), documents: many },
      'arguments of a call': { messages: [{ role: 'a', tool_calls: [{ arguments: many }] }] },
      'the same beside parts': said([{ type: 'text', text: 'hi', x: many }]),
    }
    for (const [name, body] of Object.entries(bodies)) {
      const counted = await countPrompt(body)
      // Each document has a frame, too.
      t.ok(counted >= 0.95 * truth && counted < 1.5 * truth + 60, `${name}: ${counted} of ${truth}`)
    }
  }
})

t.test('words that messages and parts have, too, do not make honest messages dearer', async (t) => {
  const many = Array.from({ length: 20 }, () => ({ role: 'user', content: 'Good morning' }))
  const plain = await countPrompt({ messages: many })
  const call = { type: 'function', function: { name: 'text', arguments: '{"role":"a"}' } }
  const extras: Record<string, object> = {
    text: { content: 'text' },
    role: { content: 'role' },
    call: { content: 'Good', tool_calls: [call] },
    thoughts: { content: 'Good', reasoning_details: [{ type: 'reasoning.text', text: 'So' }] },
  }
  for (const [name, extra] of Object.entries(extras)) {
    const counted = await countPrompt({ messages: [...many, { role: 'user', ...extra }] })
    t.ok(counted < plain + 50, `${name}: ${counted} beside ${plain}`)
  }
})

t.test('escapes do not change the count', async (t) => {
  const content = '你好,世界。'.repeat(50)
  const body = JSON.stringify(said(content))
  const ascii = body.replace(/[^\x20-\x7e]/g, (c) => `\\u${c.charCodeAt(0).toString(16)}`)
  t.equal(await countPrompt(ascii), await countPrompt(body))
})

t.test('token ids count one each, images by their pixels, sound by its bytes', async (t) => {
  const ids = Array.from({ length: 1000 }, (_, i) => 10_000 + i)
  t.equal(await countPrompt({ input: ids }), 1000)
  t.equal(await countPrompt({ prompt: [ids, ids] }), 2000)
  const image = { type: 'image_url', image_url: { url: imageUrl('jpeg', 4096, 4096) } }
  const seen = await countPrompt(said([image, image]))
  t.ok(seen > 32 * 1500 && seen < 32 * 1500 + 60, `${seen}`)
  const sound = { type: 'input_audio', input_audio: { data: 'A'.repeat(20_000), format: 'wav' } }
  const heard = await countPrompt(said([sound]))
  t.ok(heard > 200 && heard < 250, `${heard}`)
})

t.test('a rerank costs its query with each document', async (t) => {
  const counted = await countPrompt({ query: words(1000), documents: Array(50).fill(words(10)) })
  t.ok(counted >= 50 * 1010 && counted < 50 * 1025, `${counted}`)
})

t.test('images of embeddings and reranks count as images', async (t) => {
  const url = imageUrl('png', 1024, 1024, 300_000)
  const typed = { type: 'image_url', image_url: { url } }
  for (const body of [
    { input: [typed] },
    { input: [{ content: [typed] }] },
    { input: [{ image: url }] },
    { input: { image: url } },
    { query: 'q', documents: [{ image: url }] },
    { query: 'q', documents: { content: [typed] } },
  ]) {
    const cost = await countPrompt(body)
    t.ok(cost >= 1500 && cost < 1600, `${JSON.stringify(body).slice(0, 60)}: ${cost}`)
  }
  const query = { content: [typed] }
  const cost = await countPrompt({ query, documents: Array(50).fill('a') })
  t.ok(cost >= 50 * 1500 && cost < 50 * 1600, `${cost}: the query is read with each document`)
})

t.test('a document, film or unknown thing in a data URL is text', async (t) => {
  const data = Buffer.from(words(2000)).toString('base64')
  const part = { type: 'file', file: { file_data: `data:text/plain;base64,${data}` } }
  t.ok((await countPrompt(said([part]))) >= 2000)
})

t.test('an instruction counts as often as it is read, an address as a large image', async (t) => {
  const instruct = words(1000)
  const documents = ['a', 'b', 'c', 'd']
  for (const body of [
    { query: 'q', documents, instruct },
    { input: documents, instruction: instruct },
  ]) {
    const cost = await countPrompt(body)
    t.ok(cost >= 4000 && cost < 4200, `${cost}`)
  }
  const body = said([{ video_url: 'https://x.test/a' }])
  t.equal((await countPrompt(body, 1)) - (await countPrompt(body)), 16 * 1500)
})
