// The log: any frame and what follows are given byte for byte, and memory is limited.

import t from 'tap'
import { FrameLog } from '../../../src/sessions/streams/frame-log.ts'
import { framesOf } from '../../fixtures/stream.ts'
import { seeded } from '../../fixtures/random.ts'

const message = 'msg_0199aaaaaaaa7aaa8aaaaaaaaaaaaaaa'

const logOf = (maxBytes = 1 << 20, next = 0) => new FrameLog(message, { next, maxBytes })

/** The frames from `first` to before `next` as one batch. */
const batch = (log: FrameLog, frames: readonly string[], next: number) =>
  log.add(frames.slice(log.next, next).join(''), next)

t.test('whatever the batches, from any frame on exactly what follows is given', async (t) => {
  const random = seeded(1)
  const traps = [`id: ${message}:`, '\n\nid: x', `\n\nid: ${message}:`, 'Ã©', '[DONE]', '\n']
  for (let round = 0; round < 200; round++) {
    const count = 1 + random(40)
    const data = Array.from({ length: count }, () => `${traps[random(6)]}${random(count + 1)}\n`)
    const frames = framesOf(message, data)
    const log = logOf()
    while (log.next < count) {
      batch(log, frames, Math.min(count, log.next + 1 + random(7)))
      const seq = random(log.next + 1)
      const piece = log.from(seq)
      t.same(
        piece,
        { text: frames.slice(seq, log.next).join(''), next: log.next },
        `round ${round}`,
      )
    }
  }
})

t.test('one who takes little is given few whole frames, then the rest', async (t) => {
  const frames = framesOf(
    message,
    Array.from({ length: 50 }, (_, i) => `${i}`.padEnd(100, '.')),
  )
  const log = logOf()
  for (let next = 5; next <= 50; next += 5) batch(log, frames, next)
  let text = ''
  for (let seq = 7; seq < 50;) {
    const piece = log.from(seq, 1000)
    t.ok(piece && piece.text.length < 2000 && piece.next > seq)
    text += piece?.text ?? ''
    seq = piece?.next ?? 50
  }
  t.equal(text, frames.slice(7).join(''))
  const whole = logOf()
  batch(whole, frames, 50)
  t.ok((whole.from(0, 1000)?.text.length ?? 0) < 2000, 'also of a long text')
})

t.test('a reader ahead of the log gets nothing, and keeps its place', async (t) => {
  const log = logOf()
  log.add(framesOf(message, ['a']).join(''), 1)
  t.same(log.from(1), { text: '', next: 1 })
  t.same(log.from(9), { text: '', next: 9 })
})

t.test('a log that begins in the middle has nothing of what was before', async (t) => {
  const log = logOf(1 << 20, 7)
  t.equal(log.from(6), undefined)
  t.same(log.from(7), { text: '', next: 7 })
})

t.test('no more than the bound is kept, the oldest go; one frame may be larger', async (t) => {
  const log = logOf(1000)
  const frames = framesOf(
    message,
    Array.from({ length: 50 }, () => 'x'.repeat(100)),
  )
  for (let i = 1; i <= 50; i++) batch(log, frames, i)
  let kept = 0
  while (log.from(49 - kept)) kept++
  t.equal(kept, Math.floor(1000 / (frames[49]?.length ?? 0)))
  log.add(framesOf(message, ['y'.repeat(5000)])[0]?.replace(':0\n', ':50\n') ?? '', 51)
  t.equal(log.from(49), undefined)
  t.ok((log.from(50)?.text.length ?? 0) > 5000)
})

t.test('stored frames are dropped except for a tail; others stay', async (t) => {
  const log = logOf(1 << 30)
  const frames = framesOf(
    message,
    Array.from({ length: 300 }, () => 'x'.repeat(1000)),
  )
  for (let i = 1; i <= 300; i++) batch(log, frames, i)
  log.stored(100)
  t.equal(log.from(99), undefined)
  t.ok(log.from(100), 'not stored')
  log.stored(300)
  const firstKept = Array.from({ length: 300 }, (_, i) => i).find((seq) => log.from(seq)) ?? 300
  const kept = log.from(firstKept)?.text.length ?? 0
  t.ok(kept > 15 * 1024 && kept <= 16 * 1024, `${kept}`)
})

t.test('frames that are held are for Redis; readers get them once they are shown', async (t) => {
  const log = logOf()
  const [one = '', two = ''] = framesOf(message, ['a', 'b'])
  const got: unknown[] = []
  log.add(one, 1)
  log.listen(() => got.push(log.from(1)))
  log.hold(two, 2)
  t.equal(log.next, 1)
  t.same(log.from(0), { text: one, next: 1 })
  t.same(log.from(1), { text: '', next: 1 })
  t.equal(log.bytes(0)?.bytes.toString('latin1'), one + two)
  log.show(two, 2)
  t.same(got, [{ text: two, next: 2 }])
  t.same(log.from(0), { text: one + two, next: 2 })
})

t.test('listeners hear of additions, end and break, until they leave', async (t) => {
  const log = logOf()
  const heard: string[] = []
  const listen = () => heard.push(`${log.next} ${log.isEnded} ${log.isLost} ${log.isBroken}`)
  log.listen(listen)
  log.add('a', 1)
  log.end({ isLost: true })
  log.break()
  log.unlisten(listen)
  log.add('b', 2)
  t.same(heard, ['1 false false false', '1 true true false', '1 true true true'])
})
