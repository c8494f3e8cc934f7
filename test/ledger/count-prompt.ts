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

t.test('a long one is sampled all over: nearly as exact, and no work for minutes', async (t) => {
  // Cheap words first, dear ones behind: a sample of the beginning would be far off.
  const half = 1_000_000
  const text = 'hello world '.repeat(half / 12) + 'zq'.repeat(half / 2)
  const [cheap, dear] = [2 / 12, (await countPrompt({ prompt: 'zq'.repeat(5000) }, 1e9)) / 10_000]
  let turns = 0
  let isCounting = true
  const turn = () => {
    turns++
    if (isCounting) setImmediate(turn)
  }
  turn()
  const counted = await countPrompt({ prompt: text }, 1e9)
  isCounting = false
  const expected = half * (cheap + dear)
  t.ok(Math.abs(counted - expected) < expected * 0.1, `${counted} for ${expected}`)
  t.ok(turns < 300, `${turns} turns of the event loop, one a slice`)
})
