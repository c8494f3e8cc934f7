import t from 'tap'
import { joinReports } from '../../src/workers/join-reports.ts'

const report = (state: string, since: number, more = {}) => ({
  model: 'm',
  name: '1',
  state,
  since,
  open: 2,
  failures: 1,
  queue: 3,
  ...more,
})

t.test('requests are summed, the worst state is shown with its time', async (t) => {
  t.same(joinReports([report('up', 5), report('open', 9, { failures: 5 }), report('loading', 7)]), [
    report('open', 9, { open: 6, failures: 5, queue: 9 }),
  ])
  t.same(joinReports([report('up', 5), report('up', 3)]), [report('up', 3, { open: 4, queue: 6 })])
  t.same(joinReports([report('open', 5), report('open', 8)]), [
    report('open', 5, { open: 4, queue: 6 }),
  ])
})

t.test('targets of other models and other names stay apart', async (t) => {
  const all = [report('up', 1), report('up', 1, { name: '2' }), report('up', 1, { model: 'n' })]
  t.same(joinReports(all), all)
})
