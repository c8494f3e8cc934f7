// What chaos forgives after a fail-over of Redis, and what it does not.

import t from 'tap'
import { Risks } from '../../scripts/chaos/risks.ts'
import type { Span } from '../../scripts/chaos/risks.ts'

const span = (from: number, to: number): Span => ({ from, to })
const failOver = (atRisk: readonly Span[], healedAt: number) => ({
  atRisk,
  healedAt,
  isPlanned: false,
})

t.test('only what was acknowledged at the time of a fail-over may be gone', async (t) => {
  const risks = new Risks()
  t.notOk(risks.mayForget(span(0, 1e9)), 'without a fail-over, nothing')
  risks.add(failOver([span(1000, 3000), span(5000, 6000)], 9000))
  t.ok(risks.mayForget(span(2000, 2500)))
  t.ok(risks.mayForget(span(500, 1500)), 'it began before')
  t.notOk(risks.mayForget(span(500, 900)))
  t.notOk(risks.mayForget(span(3100, 4900)), 'the next primary has it')
  t.ok(risks.mayForget(span(5500, 8000)), 'the old one took writes again')
})

t.test('a charge may only be lost if its own gateway was killed, too', async (t) => {
  const now = performance.now()
  const risks = new Risks()
  const call = span(now - 100, now + 100_000)
  risks.killed('one')
  t.notOk(risks.mayForgetCharge('one', call), 'Redis has it')
  risks.add(failOver([span(now - 50, now + 60_000)], now + 61_000))
  t.ok(risks.mayForgetCharge('one', call))
  t.notOk(risks.mayForgetCharge('other', call), 'the other sends it again')
  t.notOk(risks.mayForgetCharge('one', span(now - 100, now - 60)), 'its replica had it')
  t.notOk(risks.mayForgetCharge('one', span(now + 40_000, now + 50_000)), 'it was killed before')
  const later = new Risks()
  later.killed('one')
  later.add(failOver([span(now - 60_000, now - 50_000)], now - 40_000))
  t.notOk(later.mayForgetCharge('one', span(now - 60_000, now)), 'it had sent it again long before')
})
