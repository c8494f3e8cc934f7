// What chaos forgives after a fail-over of Redis, and what it does not.

import t from 'tap'
import { Risks } from '../../scripts/chaos/risks.ts'

const span = (from: number, to: number) => ({ from, to })

t.test('only what was acknowledged at the time of a fail-over may be gone', async (t) => {
  const risks = new Risks()
  t.notOk(risks.mayForget(span(0, 1e9)), 'without a fail-over, nothing')
  risks.add({ acknowledged: span(1000, 3000), healedAt: 9000 })
  t.ok(risks.mayForget(span(2000, 2500)))
  t.ok(risks.mayForget(span(500, 1500)), 'it began before')
  t.notOk(risks.mayForget(span(500, 900)))
  t.notOk(risks.mayForget(span(3100, 8000)), 'the next primary has it')
})

t.test('a charge may only be lost if its own gateway was killed, too', async (t) => {
  const now = performance.now()
  const risks = new Risks()
  const call = span(now - 100, now + 100_000)
  risks.killed('one')
  t.notOk(risks.mayForgetCharge('one', call), 'Redis has it')
  risks.add({ acknowledged: span(now - 50, now + 60_000), healedAt: now + 61_000 })
  t.ok(risks.mayForgetCharge('one', call))
  t.notOk(risks.mayForgetCharge('other', call), 'the other sends it again')
  t.notOk(risks.mayForgetCharge('one', span(now - 100, now - 60)), 'its replica had it')
  t.notOk(risks.mayForgetCharge('one', span(now + 40_000, now + 50_000)), 'it was killed before')
  const later = new Risks()
  later.killed('one')
  later.add({ acknowledged: span(now - 60_000, now - 50_000), healedAt: now - 40_000 })
  t.notOk(later.mayForgetCharge('one', span(now - 60_000, now)), 'it had sent it again long before')
})
