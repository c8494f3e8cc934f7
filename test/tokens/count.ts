// The tokenizer: right for plain text, harmless for hostile text.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { countTokens } from '../../src/tokens/count.ts'
import { loopsDuring } from '../fixtures/loops.ts'

t.test('plain texts have the counts of o200k_base', async (t) => {
  t.equal(await countTokens(''), 0)
  t.equal(await countTokens('hello world'), 2)
  t.equal(await countTokens('The quick brown fox jumps over the lazy dog.'), 10)
})

t.test('special tokens in a text are text', async (t) => {
  t.ok((await countTokens('<|endoftext|>')) > 1)
})

t.test('slices do not change the count of words by more than one a slice', async (t) => {
  const words = 'the quick brown fox jumps over it '.repeat(300)
  const tokens = await countTokens(words)
  t.ok(Math.abs(tokens - 2101) <= 12, String(tokens))
})

t.test('a surrogate pair is never cut', async (t) => {
  const even = await countTokens('😀'.repeat(1500))
  const odd = await countTokens(`a${'😀'.repeat(1500)}`)
  t.ok(Math.abs(even - odd) <= 2, `${even} and ${odd}`)
})

t.test('of 200,000 equal characters only a few at a time block the event loop', async (t) => {
  for (const char of ['a', ' ', '你', '\u0000', '=']) {
    const counting = countTokens(char.repeat(200_000))
    const turns = await loopsDuring(counting)
    t.ok((await counting) > 100, JSON.stringify(char))
    // 1000 characters take 3 ms, and the time grows with the square. The milliseconds depend on the machine.
    t.ok(turns >= 199, `${turns} turns of the event loop between 200 slices`)
  }
})

t.test('a tokenizer that failed to load is loaded later', async (t) => {
  const script = `
    import { closeSync, openSync } from 'node:fs'
    import { countTokens } from '${new URL('../../src/tokens/count.ts', import.meta.url).href}'
    const open = []
    try { for (;;) open.push(openSync('/dev/null')) } catch {}
    const failed = await countTokens('hello world').catch(() => 'failed')
    for (const one of open) closeSync(one)
    console.log(failed, await countTokens('hello world'))`
  const few = 'ulimit -n 80; exec "$0" --input-type=module --eval "$1"'
  const { stdout } = await promisify(execFile)('sh', ['-c', few, process.execPath, script])
  t.equal(stdout, 'failed 2\n')
})
