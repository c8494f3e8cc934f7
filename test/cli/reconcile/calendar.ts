import t from 'tap'
import { calendarOf, daysLater, midnightOf } from '../../../src/cli/reconcile/calendar.ts'

t.test('an instant has its day in the zone', async (t) => {
  const at = Date.parse('2026-11-20T23:30:00Z')
  t.equal(calendarOf('UTC').dayAt(at), '2026-11-20')
  t.equal(calendarOf('Europe/Berlin').dayAt(at), '2026-11-21')
  t.equal(calendarOf('America/New_York').dayAt(at), '2026-11-20')
  t.equal(calendarOf('Etc/UTC').isUtc, true)
  t.equal(calendarOf('Europe/Berlin').isUtc, false)
  t.throws(() => calendarOf('Mars'), { exitCode: 2, message: /"Mars" is no time zone/ })
})

t.test('only days that exist are days', async (t) => {
  t.equal(midnightOf('2028-02-29'), Date.UTC(2028, 1, 29))
  const wrong = ['2026-02-29', '2026-13-01', '2026-11-00', '26-11-01', '2026-1-1', '20261101', '']
  for (const text of wrong) t.equal(midnightOf(text), undefined, text)
  t.equal(daysLater('2026-12-31', 1), '2027-01-01')
  t.equal(daysLater('2026-03-01', -1), '2026-02-28')
})
