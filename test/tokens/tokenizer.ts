// Our tokenizer must count like the package, whose tables take too much memory.

import { randomBytes, randomInt } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { Test } from 'tap'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { loadTokenizer } from '../../src/tokens/tokenizer.ts'
import { bothWays } from '../fixtures/both-ways.ts'
import { readSources } from '../fixtures/source.ts'

const special = { disallowedSpecial: new Set<string>() }

async function sameCounts(t: Test, texts: readonly string[]): Promise<void> {
  const count = await loadTokenizer()
  t.ok(texts.length > 0)
  for (const text of texts) {
    const expected = countTokens(text, special)
    if (count(text) !== expected) t.equal(count(text), expected, JSON.stringify(text))
  }
}

t.test('every line of prose and code of this repository', async (t) => {
  const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8')
  const texts = [readme, ...readSources().map(({ text }) => text)]
  await sameCounts(
    t,
    texts.flatMap((text) => text.split('\n')),
  )
})

t.test('many languages, signs and blanks', (t) =>
  sameCounts(t, [
    'Привет, мир! 你好，世界！ 👩‍🚀',
    'naïve café — «ça va»؟ \u0000\x1b[0m ꙮ 𓀀',
    'for (let i = 0; i < 10; i++) {\n\t\treturn [i]\n}\n\n\n   ',
    "I'll say they'RE 12345678 times <|endoftext|>",
    'half a pair \ud83d',
    'a'.repeat(1000),
    '=-'.repeat(500),
  ]),
)

t.test('any script and any bytes', async (t) => {
  const ofOneScript = () => {
    const first = randomInt(0x20, 0x2fa00)
    const points = Array.from({ length: randomInt(1, 80) }, () => first + randomInt(300))
    return String.fromCodePoint(...points)
  }
  const ofBytes = () => randomBytes(randomInt(1, 200)).toString()
  const texts = [...Array(1000)].flatMap(() => [ofOneScript(), ofBytes()])
  // The package drops a byte order mark when it looks for a token that begins with one.
  await sameCounts(
    t,
    texts.map((text) => text.replaceAll('\ufeff', '')),
  )
})

const test = bothWays(t, 'token-tables')

test('a control token is text like any other', async (t) => {
  const count = await loadTokenizer()
  t.equal(count('Hello, world!'), 4)
  t.equal(count('<|endoftext|>'), 7)
})

test('a byte order mark belongs to the token that begins with it', async (t, isPlain) => {
  const count = await loadTokenizer()
  // The package drops it, and finds no such token.
  t.equal(count('\ufeffnamespace'), isPlain ? 3 : 1)
})
