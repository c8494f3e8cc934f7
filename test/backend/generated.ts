// All generated text is found, counted once, and kept within its limit.

import t from 'tap'
import { Generated } from '../../src/backend/generated.ts'
import { countText } from '../../src/tokens/count-pieces.ts'
import { countTokens } from '../../src/tokens/count.ts'
import { answerOf, kinds, mixedAnswer } from '../fixtures/answers.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'

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

/** The ways in which servers cut an answer into pieces: code points for each. */
const cuts: Readonly<Record<string, (random: Random) => number>> = {
  letters: () => 1,
  'short pieces': (random) => 1 + random(6),
  'long pieces': (random) => 20 + random(200),
}

const answers: Readonly<Record<string, (random: Random) => string>> = {
  ...Object.fromEntries(
    kinds.map((kind) => [kind, (random: Random) => answerOf(kind, 8000, random)]),
  ),
  'all kinds in turn': (random) => mixedAnswer(8000, random),
}

for (const [name, answer] of Object.entries(answers)) {
  for (const [how, size] of Object.entries(cuts)) {
    t.test(`${name} in ${how}: samples tell the tokens within a tenth`, async (t) => {
      const random = seeded(1)
      let worst = 1
      for (let run = 0; run < 2; run++) {
        const generated = new Generated(countText)
        const points = [...answer(random)]
        let [said, at] = ['', 0]
        while (at < points.length) {
          // What comes between two checkpoints.
          const until = Math.min(points.length, at + 1 + random(600))
          while (at < until) {
            const piece = points.slice(at, (at += size(random))).join('')
            generated.add(Buffer.from(JSON.stringify(piece).slice(1, -1)).toString('latin1'))
            said += piece
          }
          await generated.gauge()
          const truth = await countTokens(said)
          const ratio = generated.gaugedTokens / truth
          // A short text has few tokens to be wrong by.
          const isOff = Math.abs(generated.gaugedTokens - truth) > 4
          if (isOff && Math.abs(ratio - 1) > Math.abs(worst - 1)) worst = ratio
        }
      }
      t.ok(worst > 0.9 && worst < 1.1, `${worst}`)
    })
  }
}

t.test('a slow stream, whose space follows its words, has many checkpoints', async (t) => {
  const generated = new Generated(countText)
  let said = ''
  let worst = 0
  for (const word of answerOf('english', 1500, seeded(1)).match(/\S+\s*/g) ?? []) {
    said += word
    generated.add(JSON.stringify(word).slice(1, -1))
    await generated.gauge()
    const off = Math.abs(generated.gaugedTokens - (await countTokens(said)))
    // A short text has few tokens to be wrong by.
    if (off > 4) worst = Math.max(worst, off / (await countTokens(said)))
  }
  t.ok(worst < 0.1, `${worst}`)
})

t.test('what was counted and let go of stays as it was counted', async (t) => {
  const generated = new Generated(async (text) =>
    text.startsWith('x') ? text.length : text.length / 4,
  )
  generated.add('x'.repeat(64))
  await generated.tokens()
  generated.add('w'.repeat(100))
  await generated.gauge()
  t.equal(generated.gaugedTokens, 64 + 25)
})

t.test('escapes and cut characters do not change what samples tell', async (t) => {
  const text = answerOf('chinese', 3000, seeded(1))
  const escaped = text.replace(/[^ -~]/g, (c) =>
    c === '\n' ? '\\n' : `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
  const truth = await countTokens(text)
  const generated = new Generated(countText)
  for (const piece of escaped.match(/\\u....|./g) ?? []) {
    generated.add(piece)
    await generated.gauge()
  }
  const ratio = generated.gaugedTokens / truth
  t.ok(ratio > 0.9 && ratio < 1.1, `${ratio}`)
})

t.test('a gauge counts little: a sample, and none while little has come', async (t) => {
  const lengths: number[] = []
  const generated = new Generated(async (text) => {
    lengths.push(text.length)
    return text.length / 4
  })
  for (let i = 0; i < 10_000; i++) {
    generated.add('word ')
    await generated.gauge()
  }
  t.ok(Math.max(...lengths) <= 1000)
  t.ok(lengths.length < 80, `${lengths.length} samples of 10,000 pieces`)
  t.equal(generated.gaugedTokens, 12_500)
})

t.test('what was counted corrects what was sampled', async (t) => {
  let density = 1
  const generated = new Generated(async (text) => text.length * density)
  generated.add('x'.repeat(2000))
  await generated.gauge()
  t.equal(generated.gaugedTokens, 2000)
  density = 0.5
  t.equal(await generated.tokens(), 1000)
  t.equal(generated.gaugedTokens, 1000)
  const failing = new Generated(async () => Promise.reject(new Error('broken')))
  failing.add('12345678')
  await failing.gauge()
  t.equal(failing.gaugedTokens, 2, 'four bytes a token, where nothing can be counted')
})
