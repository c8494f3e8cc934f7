// All generated text is found, counted once, and kept within its limit.

import t from 'tap'
import { Generated } from '../../src/backend/generated.ts'

t.test('the tokenizer gets the generated text, decoded, in order', async (t) => {
  const texts: string[] = []
  const generated = new Generated(async (text) => texts.push(text))
  for (const said of ['Grüße, ', '"Welt"\n', '😀']) {
    generated.add(Buffer.from(JSON.stringify(said).slice(1, -1)).toString('latin1'))
  }
  generated.add('\\ud83d')
  generated.add('\\ude00')
  await generated.tokens()
  t.equal(texts.join(''), 'Grüße, "Welt"\n😀😀')
})

t.test('characters are code points, not bytes or escapes', async (t) => {
  const generated = new Generated(async () => 0)
  for (let i = 0; i < 100; i++) generated.add(Buffer.from('é€').toString('latin1'))
  for (let i = 0; i < 100; i++) generated.add('\\u4f60\\n')
  t.equal(generated.roughTokens, 100, 'a token for four')
})

t.test('at most 64 KiB of a long answer wait, and all of it is counted once', async (t) => {
  let largest = 0
  const generated = new Generated(async (text) => {
    largest = Math.max(largest, text.length)
    return text.length
  })
  let added = 0
  for (let i = 0; i < 10_000; i++) {
    const piece = `word ${i} `
    generated.add(piece)
    added += piece.length
    if (i % 1000 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(await generated.tokens(), added)
  t.equal(await generated.tokens(), added, 'and once only')
  t.ok(largest <= 66 * 1024)
})

t.test('a tokenizer that fails or falls behind makes the count less exact', async (t) => {
  const failing = new Generated(async () => Promise.reject(new Error('broken')))
  failing.add('12345678')
  t.equal(await failing.tokens(), 2)
  const release: (() => void)[] = []
  const slow = new Generated(
    (text) => new Promise((resolve) => release.push(() => resolve(text.length / 4))),
  )
  for (let i = 0; i < 10; i++) slow.add('x'.repeat(64 * 1024))
  const tokens = slow.tokens()
  let isThere = false
  void tokens.then(() => (isThere = true))
  while (!isThere) {
    release.shift()?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  t.equal(await tokens, (10 * 64 * 1024) / 4)
})

t.test('ids beside a text are not counted again, ids alone and sound are', async (t) => {
  const generated = new Generated(async (text) => text.length)
  generated.add('abc')
  generated.addOthers({ ids: 2, audioBytes: 0, texts: 1 })
  t.equal(await generated.tokens(), 3)
  generated.addOthers({ ids: 5, audioBytes: 0, texts: 1 })
  t.equal(await generated.tokens(), 7, 'more ids than the text has tokens')
  generated.addOthers({ ids: 4, audioBytes: 0, texts: 0 })
  t.equal(await generated.tokens(), 11)
  generated.addOthers({ ids: 0, audioBytes: 40, texts: 0 })
  t.equal(await generated.tokens(), 12, 'a piece of sound is a token at least')
  generated.addOthers({ ids: 0, audioBytes: 2000, texts: 0 })
  t.equal(await generated.tokens(), 22)
  t.equal(generated.roughTokens, 7 + 4 + 11)
  const pieces = new Generated(async () => 0)
  for (let i = 0; i < 3; i++) pieces.addOthers({ ids: 0, audioBytes: 40, texts: 0 })
  t.equal(await pieces.tokens(), 3, 'each of them, however short')
})
