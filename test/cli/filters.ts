import t from 'tap'
import { parsePast, queryOf } from '../../src/cli/filters.ts'
import type { Call } from '../../src/cli/command.ts'

const nowMs = Date.UTC(2026, 10, 24)

t.test('a time is a day, Unix seconds, or so long ago', async (t) => {
  t.equal(parsePast('2026-11-01', nowMs), Date.UTC(2026, 10, 1) / 1000)
  t.equal(parsePast('1795200000', nowMs), 1795200000)
  t.equal(parsePast('30d', nowMs), nowMs / 1000 - 30 * 86_400)
  t.equal(parsePast('0', nowMs), nowMs / 1000)
  t.throws(() => parsePast('yesterday', nowMs), { name: 'CliError', exitCode: 2 })
})

t.test('the query has what was given', async (t) => {
  const given: Record<string, string> = { from: '2026-11-01', model: 'org/m' }
  const call = { text: (name: string) => given[name] } as Call
  t.equal(
    `${queryOf(call, { type: 'refund', reference: undefined })}`,
    'from=1793491200&model=org%2Fm&type=refund',
  )
})
