// What a demoted primary has lost, told from what servers say of themselves.

import t from 'tap'
import { Lineage } from '../../scripts/chaos/lineage.ts'
import type { Demotion, Origins, Reached, ServerView } from '../../scripts/chaos/lineage.ts'

const none: Reached = { id: '0'.repeat(40), offset: -2 }

const said = (askedAt: number, at: Reached, more: Partial<ServerView> = {}): ServerView => ({
  askedAt,
  answeredAt: askedAt + 1,
  isPrimary: true,
  isLinked: false,
  at,
  left: none,
  ...more,
})

const followed = (askedAt: number, at: Reached, left = none): ServerView =>
  said(askedAt, at, { isPrimary: false, isLinked: true, left })

function servers() {
  const origins: Origins = new Map()
  const demotions: Demotion[] = []
  const server = () => new Lineage(origins, (demotion) => demotions.push(demotion))
  return { demotions, one: server(), two: server(), three: server() }
}

const a = (offset: number): Reached => ({ id: 'a', offset })
const b = (offset: number): Reached => ({ id: 'b', offset })
const c = (offset: number): Reached => ({ id: 'c', offset })

t.test('what the new primary lacks may be lost, up to the demotion', async (t) => {
  const { demotions, one, two } = servers()
  one.saw(said(100, a(10)))
  one.saw(said(200, a(20)))
  one.saw(said(300, a(30)))
  two.saw(said(400, b(25), { left: a(25) }))
  one.saw(said(500, a(50)))
  one.saw({ ...followed(600, a(50)), isLinked: false })
  t.strictSame(demotions, [], 'it does not follow the new one yet')
  t.ok(one.isOpen)
  one.saw(followed(700, b(60)))
  t.strictSame(demotions, [{ at: 601, atRisk: [{ from: 200, to: 601 }], healedAt: 701 }])
  t.notOk(one.isOpen)
  one.saw(followed(800, b(70)))
  t.equal(demotions.length, 1, 'it is told once')
})

t.test('nothing is lost if no full copy is needed', async (t) => {
  const { demotions, one, two } = servers()
  one.saw(said(100, a(10)))
  two.saw(said(200, b(12), { left: a(12) }))
  one.saw(followed(300, b(20), a(12)))
  t.strictSame(demotions, [{ at: 301, atRisk: [], healedAt: 301 }])
})

t.test('a primary that is started again in time has lost nothing', async (t) => {
  const { demotions, one, two } = servers()
  one.saw(said(100, a(10)))
  one.isDown(200)
  one.saw(said(300, b(0)))
  two.saw(followed(400, b(5)))
  one.saw(said(500, b(9)))
  t.strictSame(demotions, [])
  two.saw(said(600, c(12), { left: b(7) }))
  one.saw(followed(700, c(12)))
  t.strictSame(demotions, [{ at: 701, atRisk: [{ from: 300, to: 701 }], healedAt: 701 }])
})

t.test('a primary that was dead has lost nothing meanwhile', async (t) => {
  const { demotions, one, two } = servers()
  one.saw(said(100, a(10)))
  one.saw(said(200, a(20)))
  one.isDown(300)
  one.isDown(400)
  two.saw(said(410, b(12), { left: a(12) }))
  one.isDown(500)
  // It takes writes once more before it learns of the other one.
  one.saw(said(600, c(0)))
  one.saw(followed(700, b(30)))
  const atRisk = [
    { from: 100, to: 300 },
    { from: 500, to: 701 },
  ]
  t.strictSame(demotions, [{ at: 701, atRisk, healedAt: 701 }])
})

t.test('a second fail-over before the first is over', async (t) => {
  const { demotions, one, two, three } = servers()
  one.saw(said(100, a(10)))
  one.saw(said(200, a(20)))
  two.saw(said(300, b(15), { left: a(15) }))
  two.saw(said(400, b(30)))
  // It had followed the second one up to there.
  three.saw(said(500, c(20), { left: b(20) }))
  one.saw(followed(600, c(40)))
  two.saw(followed(600, c(40)))
  const spans = demotions.map(({ atRisk }) => atRisk)
  t.strictSame(spans, [[{ from: 100, to: 601 }], [{ from: 300, to: 601 }]])
})
