// Long texts are sampled: the count is at most a twentieth too low, not much too high, and takes little work.

import t from 'tap'
import { countedBytes, countPieces, countText, quick } from '../../src/tokens/count-pieces.ts'
import { countTokens } from '../../src/tokens/count.ts'
import { answerOf, kinds, mixedAnswer } from '../fixtures/answers.ts'
import { seeded } from '../fixtures/random.ts'
import { loopsDuring } from '../fixtures/loops.ts'
import { languages } from '../fixtures/languages.ts'

const sample = async (text: string) => {
  const body = Buffer.from(text)
  return countPieces(body, [{ start: 0, end: body.length }])
}

for (const [name, text] of Object.entries(languages)) {
  t.test(`${name}: a long text costs between 0.95 and 1.3 of its tokens`, async (t) => {
    const per = (await countTokens(text.repeat(20))) / 20
    const times = Math.ceil((2 * countedBytes) / Buffer.byteLength(text))
    const ratio = (await sample(text.repeat(times))) / (per * times)
    t.ok(ratio >= 0.95 && ratio <= 1.3, `${ratio}`)
  })
}

t.test('a short text is counted exactly', async (t) => {
  const text = languages.english.repeat(100)
  t.equal(await countText(text), await countTokens(text))
})

t.test('in a text that is not JSON a backslash is a character like others', async (t) => {
  const piece = String.raw`\u0061\u0062\n`
  const text = piece.repeat(Math.ceil((2 * countedBytes) / piece.length))
  const truth = await countTokens(text)
  const counted = await countText(text)
  t.ok(counted >= 0.95 * truth && counted < 1.3 * truth, `${counted} of ${truth}`)
})

t.test('no order of the text hides its dear part', async (t) => {
  const random = seeded(1)
  const letters = Array.from({ length: 40_000 }, () => String.fromCharCode(97 + random(26)))
  const dear = letters.join('')
  const truthDear = await countTokens(dear)
  const cheap = ' '.repeat(1_000_000)
  const truth = truthDear + (await countTokens(cheap))
  for (const at of [0, 123_456, 1_000_000]) {
    const counted = await sample(cheap.slice(0, at) + dear + cheap.slice(at))
    t.ok(counted >= 0.95 * truth, `${counted} of ${truth}, at ${at}`)
  }
  // Every other kilobyte, as an attacker who knew the samples would place it.
  const woven = Array.from(
    { length: 40 },
    (_, i) => dear.slice(i * 1000, i * 1000 + 1000) + ' '.repeat(9000),
  )
  const counted = await sample(woven.join(''))
  t.ok(counted >= 0.95 * truthDear, `${counted} of ${truthDear}`)
})

t.test('a text of 8 MB takes a limited number of turns', async (t) => {
  const turns = await loopsDuring(sample(languages.english.repeat(80_000)))
  t.ok(turns < 1000, `${turns}`)
})

for (const [name, text] of Object.entries({
  ...Object.fromEntries(kinds.map((kind) => [kind, answerOf(kind, 40_000, seeded(1))])),
  'all kinds in turn': mixedAnswer(40_000, seeded(1)),
})) {
  t.test(`${name}: a quick count is within a tenth, on the average within 3 %`, async (t) => {
    const body = Buffer.from(text)
    const truth = await countTokens(text)
    let sum = 0
    for (let run = 0; run < 20; run++) {
      const counted = await countPieces(body, [{ start: 0, end: body.length }], quick)
      sum += counted / truth
      t.ok(Math.abs(counted / truth - 1) < 0.1, `${counted} of ${truth}`)
    }
    t.ok(Math.abs(sum / 20 - 1) < 0.03, `${sum / 20}`)
  })
}

t.test('a quick count of a short text is exact, and of a megabyte takes few turns', async (t) => {
  const text = answerOf('english', 7000, seeded(1))
  const body = Buffer.from(text)
  const whole = [{ start: 0, end: body.length }]
  t.equal(await countPieces(body, whole, quick), await countTokens(text))
  const long = Buffer.from(text.repeat(150))
  const turns = await loopsDuring(countPieces(long, [{ start: 0, end: long.length }], quick))
  t.ok(turns < 20, `${turns}`)
})
