// A text is what was added, and takes little memory, however small its pieces are.

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import t from 'tap'
import { FlatText, flatten } from '../../src/backend/flat-text.ts'
import { seeded } from '../fixtures/random.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

function heapBytes(): number {
  collect()
  return process.memoryUsage().heapUsed
}

t.test('a text is all pieces in order; its newest part has its last 1024 chars', async (t) => {
  const random = seeded(3)
  for (const most of [1, 7, 300, 3000]) {
    const text = new FlatText()
    let all = ''
    for (let i = 0; i < 1500; i++) {
      const piece = `${i}`.repeat(random(most + 1)).slice(0, most)
      text.add(piece)
      all += piece
      const { newest } = text
      const isEnd = all.endsWith(newest) && newest.length >= Math.min(1024, all.length)
      if (!isEnd || text.length !== all.length) return t.fail(`${most}: ${newest.length}`)
    }
    t.ok(text.toString() === all)
  }
})

t.test(
  'a long text of tokens takes little more than its chars, a short one 1 KB more',
  async (t) => {
    const texts: FlatText[] = []
    const grow = (count: number, tokens: number) => {
      for (let n = 0; n < count; n++) {
        const text = new FlatText()
        for (let i = 0; i < tokens; i++) text.add(` t${i % 10_000}k`)
        texts.push(text)
      }
    }
    // Also when V8 has optimized it.
    grow(50, 10_000)
    for (const tokens of [10_000, 120]) {
      texts.length = 0
      const before = heapBytes()
      grow(100, tokens)
      const extra = (heapBytes() - before) / 100 - (texts[0]?.length ?? 0)
      t.ok(extra < 1024 + (texts[0]?.length ?? 0) / 5, `${tokens} tokens: ${extra} bytes more`)
    }
  },
)

t.test('a rope is made flat, also when V8 has optimized it', async (t) => {
  const ropes: string[] = []
  const grow = () => {
    for (let n = 0; n < 200; n++) {
      let rope = ''
      for (let i = 0; i < 2000; i++) rope += ` t${i}k`
      flatten(rope)
      ropes.push(rope)
    }
  }
  grow()
  ropes.length = 0
  const before = heapBytes()
  grow()
  const bytes = (heapBytes() - before) / 200
  t.ok(bytes < 1.2 * (ropes[0]?.length ?? 0), `${bytes} bytes`)
})
