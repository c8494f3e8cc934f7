// Prompts counted for a backend that reports nothing: text by the tokenizer, all else by the estimate, never above it.

import t from 'tap'
import { countPrompt } from '../../src/ledger/count-prompt.ts'

const said = (content: unknown) => ({ messages: [{ role: 'user', content }] })

t.test('text costs its tokens', async (t) => {
  t.equal(await countPrompt({ prompt: 'hello world' }, 1000), 2)
  t.equal(await countPrompt(said('hello world'), 1000), 2 + 2 + 4, 'a role, a line end, a frame')
  const part = { type: 'text', text: 'hello world '.repeat(50) }
  const cost = await countPrompt(said([part]), 1000)
  t.ok(cost >= 100 && cost < 120, `${cost}`)
})

t.test('what no tokenizer knows costs the estimate, which is the most', async (t) => {
  t.equal(await countPrompt({ input: [1, 2, 3] }, 77), 77)
  t.equal(await countPrompt(said([{ type: 'image_url', image_url: 'x' }]), 1500), 1500)
  t.equal(await countPrompt({}, 9), 9)
  t.equal(await countPrompt({ prompt: 'hello world '.repeat(50) }, 5), 5)
  t.equal(await countPrompt({ prompt: '' }, 5), 1)
})
