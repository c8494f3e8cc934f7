import { EventEmitter } from 'node:events'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { Channel, NoAnswer } from '../../src/workers/channel.ts'
import { standStill } from '../fixtures/stand-still.ts'

/** Two ends; what one sends, the other receives. */
function pipes() {
  const ends = [new End(), new End()] as const
  ends[0].other = ends[1]
  ends[1].other = ends[0]
  return ends
}

class End extends EventEmitter {
  connected = true
  other: End | undefined

  send(message: unknown): boolean {
    return setImmediate(() => this.other?.emit('message', structuredClone(message))) !== undefined
  }
}

t.test('each side answers the questions of the other', async (t) => {
  const [a, b] = pipes()
  const one = new Channel(a, { double: (n) => Number(n) * 2 })
  const other = new Channel(b, {
    async fail() {
      throw new Error('no')
    },
    never: () => new Promise(() => undefined),
  })
  t.equal(await other.ask('double', 4), 8)
  t.same(await Promise.all([other.ask('double', 1), other.ask('double', 2)]), [2, 4])
  await t.rejects(one.ask('fail'), { message: 'no' })
  t.equal(await one.ask('unknown'), undefined)
  await t.rejects(one.ask('never', undefined, 1), new NoAnswer('no answer to never'))
})

t.test('when the other side goes, who waits is told', async (t) => {
  const [a, b] = pipes()
  const one = new Channel(a, {})
  t.ok(new Channel(b, { never: () => new Promise(() => undefined) }))
  const asked = one.ask('never')
  one.close()
  await t.rejects(asked, { message: /has gone/ })
  a.connected = false
  await t.rejects(one.ask('any'), { message: /has gone/ })
})

t.test('an answer that came while this process stood still has come in time', async (t) => {
  const [a, b] = pipes()
  const one = new Channel(a, {})
  t.ok(new Channel(b, { double: (n) => Number(n) * 2 }))
  const asked = one.ask('double', 4, 20)
  await turn()
  standStill(50)
  t.equal(await asked, 8)
})
