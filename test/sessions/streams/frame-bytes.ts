// The memory of a stream's frames: what is there is exact, whatever was added and dropped, and it takes little.

import t from 'tap'
import { FrameBytes } from '../../../src/sessions/streams/frame-bytes.ts'
import { framesOf } from '../../fixtures/stream.ts'
import { seeded } from '../../fixtures/random.ts'

const message = 'msg_0199aaaaaaaa7aaa8aaaaaaaaaaaaaaa'

const textOf = (bytes: FrameBytes, seq: number) => bytes.from(seq)?.bytes.toString('latin1')

t.test(
  'whatever is added and dropped, the rest is exact and takes at most twice its bytes',
  async (t) => {
    const random = seeded(Number(process.env.SEED ?? 7))
    for (let round = 0; round < 60; round++) {
      const long = 1 + random(3000)
      const data = Array.from({ length: 150 }, () => 'Ã©x'.repeat(random(long)))
      const frames = framesOf(message, data)
      const held = new FrameBytes(message, 0)
      let next = 0
      let mostHeld = 0
      while (next < frames.length) {
        const from = next
        next = Math.min(frames.length, next + 1 + random(5))
        held.add(frames.slice(from, next).join(''), next)
        mostHeld = Math.max(mostHeld, held.size)
        if (random(2) === 0) held.drop(random(20_000), random(next + 2))
        const text = frames.slice(held.first, next).join('')
        if (textOf(held, held.first) !== text) return t.fail(`round ${round}: not the frames`)
        t.ok(held.size === text.length && held.taken <= 2 * mostHeld + 2048)
        const seq = held.first + random(next - held.first)
        const until = seq + 1 + random(next - seq)
        const piece = held.from(seq, { until, enough: random(10_000) })
        t.equal(piece?.bytes.toString('latin1'), frames.slice(seq, piece?.next).join(''))
        t.ok(piece && piece.next > seq && piece.next <= until)
      }
    }
  },
)

t.test('only what may go is dropped, to the frame: the newest one stays', async (t) => {
  const frames = framesOf(
    message,
    Array.from({ length: 10 }, () => 'x'.repeat(100)),
  )
  const { length } = frames[0] ?? ''
  const held = new FrameBytes(message, 0)
  held.add(frames.join(''), 10)
  held.drop(8 * length)
  t.equal(held.first, 2, 'no more than is left over')
  held.drop(8 * length - 1)
  t.equal(held.first, 3)
  held.drop(0, 5)
  t.equal(held.first, 5, 'only those before')
  held.drop(0, 4)
  t.equal(held.first, 5)
  held.drop(0)
  t.equal(held.first, 9)
  t.equal(textOf(held, 9), frames[9])
})

t.test('memory that a burst took is given back', async (t) => {
  const frames = framesOf(
    message,
    Array.from({ length: 1000 }, () => 'x'.repeat(1000)),
  )
  const held = new FrameBytes(message, 0)
  t.equal(held.taken, 0)
  held.add(frames[0] ?? '', 1)
  t.ok(held.taken <= 2048)
  held.add(frames.slice(1).join(''), 1000)
  t.ok(held.taken > 1_000_000)
  held.drop(4096)
  t.ok(held.taken <= 8192, `${held.taken}`)
  t.equal(textOf(held, 999), frames[999])
})
