import t from 'tap'
import { calendarOf } from '../../../src/cli/reconcile/calendar.ts'
import { oldestDay, readLedgerCount } from '../../../src/cli/reconcile/ledger-count.ts'
import { modelsOf } from '../../../src/cli/reconcile/models.ts'
import type { Admin } from '../../../src/cli/command.ts'

const models = modelsOf([{ id: 'm', aliases: [], targets: [] }])
const hour = 3600

/** An admin API that knows one answer, and remembers what it was asked. */
function adminWith(rows: readonly { readonly at: string; readonly seconds: number }[]) {
  const asked: URLSearchParams[] = []
  const data = rows.map(({ at, seconds }) => {
    const start = Date.parse(at) / 1000
    return {
      start,
      end: start + seconds,
      model: 'm',
      prompt_tokens: 10,
      cached_tokens: 4,
      completion_tokens: 1,
    }
  })
  const get = async (path: string) => {
    asked.push(new URLSearchParams(path.split('?')[1]))
    return { data }
  }
  return { admin: { get } as unknown as Admin, asked }
}

t.test('days in UTC are asked for as days', async (t) => {
  const { admin, asked } = adminWith([{ at: '2026-11-20T00:00:00Z', seconds: 24 * hour }])
  const calendar = calendarOf('UTC')
  const span = { first: '2026-11-20', last: '2026-11-21', isUncached: false }
  const tally = await readLedgerCount(admin, { calendar, models, ...span })
  t.match(tally.sums, [{ day: '2026-11-20', model: 'm', tokens: 11 }])
  t.same(Object.fromEntries(asked[0] ?? []), {
    from: `${Date.parse('2026-11-20') / 1000}`,
    to: `${Date.parse('2026-11-22') / 1000}`,
    bucket: 'day',
    group_by: 'model',
  })
  const uncached = await readLedgerCount(admin, { calendar, models, ...span, isUncached: true })
  t.match(uncached.sums, [{ split: { prompt: 6, completion: 1 }, tokens: 7 }])
})

t.test('days of another zone are put together of hours', async (t) => {
  const rows = ['2026-11-19T22', '2026-11-19T23', '2026-11-20T22', '2026-11-20T23'].map((at) => ({
    at: `${at}:00:00Z`,
    seconds: hour,
  }))
  const { admin, asked } = adminWith(rows)
  const calendar = calendarOf('Europe/Berlin')
  const span = { first: '2026-11-20', last: '2026-11-20', isUncached: false }
  const tally = await readLedgerCount(admin, { calendar, models, ...span })
  t.match(tally.sums, [{ day: '2026-11-20', tokens: 22 }])
  t.equal(asked[0]?.get('bucket'), 'hour')
  const india = readLedgerCount(adminWith([{ at: '2026-11-19T18:00:00Z', seconds: hour }]).admin, {
    calendar: calendarOf('Asia/Kolkata'),
    models,
    ...span,
  })
  await t.rejects(india, { exitCode: 2, message: /begin within one/ })
})

t.test('sums go back as far as they are kept', async (t) => {
  const nowMs = Date.parse('2026-11-20T23:30:00Z')
  t.equal(oldestDay(calendarOf('UTC'), nowMs), '2025-10-18')
  t.equal(oldestDay(calendarOf('Europe/Berlin'), nowMs), '2026-10-19')
})
