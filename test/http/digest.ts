import { hash } from 'node:crypto'
import t from 'tap'
import { sha256InTurns } from '../../src/http/digest.ts'
import { loopsDuring } from '../fixtures/loops.ts'

t.test('the digest is that of all bytes, however many', async (t) => {
  for (const length of [0, 1, 256 * 1024, 256 * 1024 + 1, 1_000_000, 20 * 2 ** 20]) {
    const bytes = Buffer.alloc(length, 'abc')
    const digest = await sha256InTurns(bytes, { ref: 'a', encoding: 'base64url' })
    t.equal(digest, hash('sha256', bytes, 'base64url'), `${length} bytes`)
  }
})

t.test('a long content is hashed in turns', async (t) => {
  const long = Buffer.alloc(40 * 2 ** 20)
  const loops = await loopsDuring(sha256InTurns(long, { ref: 'a', encoding: 'hex' }))
  t.ok(loops > 1, `${loops} turns of the event loop`)
})
