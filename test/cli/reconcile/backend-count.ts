import { createWriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { once } from 'node:events'
import t from 'tap'
import type { Test } from 'tap'
import { calendarOf } from '../../../src/cli/reconcile/calendar.ts'
import { readBackendCount } from '../../../src/cli/reconcile/backend-count.ts'
import { modelsOf } from '../../../src/cli/reconcile/models.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'

const options = {
  calendar: calendarOf('UTC'),
  models: modelsOf([{ id: 'm', aliases: ['nick'], targets: [{ model: 'org/m' }] }]),
  isWanted: ({ day }: { readonly day: string }) => day !== '',
  oldest: '2026-01-01',
  newest: '2026-11-20',
  signal: undefined,
}
const titles = 'day,model,tokens'

async function count(t: Test, lines: readonly string[], more: Partial<typeof options> = {}) {
  const file = join(await tempDir(t), 'count')
  await writeFile(file, lines.join('\n'))
  return readBackendCount(file, { ...options, ...more })
}

const failure = (message: RegExp) => ({ exitCode: 2, message })

t.test('lines of a day and a model are summed, under any of its names', async (t) => {
  const csv = ['', titles, '2026-11-20,m,1', '2026-11-20,org/m,2', '', '2026-11-20,nick,4']
  const found = await count(t, [...csv, '2026-11-19,m,8', '2026-11-20,other,16'])
  t.same(found.tally.sums, [
    { day: '2026-11-20', model: 'm', tokens: 7 },
    { day: '2026-11-19', model: 'm', tokens: 8 },
    { day: '2026-11-20', model: 'other', tokens: 16 },
  ])
  t.equal(found.lines, 5)
  const line = { day: '2026-11-20', model: 'm', prompt_tokens: 1, completion_tokens: 2 }
  const jsonLines = await count(t, [JSON.stringify(line), JSON.stringify(line)])
  t.match(jsonLines.tally.sums, [{ split: { prompt: 2, completion: 4 }, tokens: 6 }])
})

t.test('what was not asked for is ignored, and counted', async (t) => {
  const isWanted = ({ day }: { readonly day: string }) => day >= '2026-11-20'
  const lines = [titles, '2001-01-01,m,1', '2026-11-19,m,1', '2026-11-20,m,1']
  const found = await count(t, lines, { isWanted })
  t.match(found, { lines: 1, ignored: 2 })
})

t.test('bad lines are named with their numbers, and nothing is compared', async (t) => {
  const lines = [titles, '2026-11-20,m,1', '2026-11-20,m', '', 'x,m,1', '2027-01-01,m,1']
  await t.rejects(count(t, [...lines, '2025-12-31,m,1']), {
    exitCode: 2,
    message:
      /count:3: it has 2 columns.*\n.*count:5: "x" is no day.*\n.*count:6: 2027-01-01 is in the future\n.*count:7: the ledger's sums go back to 2026-01-01.*\n4 bad lines: nothing was compared\./,
  })
  const many = await count(t, [titles, ...Array<string>(1000).fill('?')]).catch((error: Error) =>
    error.message.split('\n'),
  )
  t.match(many, { length: 11 }, 'the first ten, and how many there are')
  const most = `2026-11-20,m,${Number.MAX_SAFE_INTEGER}`
  await t.rejects(count(t, [titles, most, most]), failure(/count:3: the sum is too large/))
})

t.test('a file that is no count says so', async (t) => {
  await t.rejects(count(t, ['', 'hello', 'world']), failure(/count:2: the titles of the columns/))
  await t.rejects(count(t, ['[', '{}', ']']), failure(/count:1: write one JSON object a line/))
  await t.rejects(count(t, ['\0'.repeat(100_000)]), failure(/more than 65536 characters/))
  const folder = await tempDir(t)
  await t.rejects(readBackendCount(folder, options), failure(/cannot be read \(EISDIR\)/))
  const absent = join(folder, 'absent')
  await t.rejects(readBackendCount(absent, options), failure(/cannot be read \(ENOENT\)/))
  t.match(await count(t, []), { lines: 0 })
})

t.test('a file of 100 MB takes no more memory than a small one', async (t) => {
  const file = join(await tempDir(t), 'large.csv')
  const out = createWriteStream(file)
  const block = `2026-11-20,m,3,${'x'.repeat(485)}\n`.repeat(200)
  out.write(`${titles},note\n`)
  for (let i = 0; i < 1000; i++) if (!out.write(block)) await once(out, 'drain')
  out.end()
  await once(out, 'close')
  let [mostBytes, count] = [0, 0]
  const before = process.memoryUsage().rss
  const isWanted = () => {
    if (count++ % 1000 === 0) mostBytes = Math.max(mostBytes, process.memoryUsage().rss - before)
    return true
  }
  const { tally, lines } = await readBackendCount(file, { ...options, isWanted })
  t.equal(lines, 200_000)
  t.equal(tally.of('2026-11-20', 'm')?.tokens, 600_000)
  t.ok(mostBytes < 64 * 2 ** 20, `${mostBytes} bytes more, of a file of 100 MB`)
})

t.test('an interrupt ends the reading', async (t) => {
  const interrupt = new AbortController()
  interrupt.abort()
  const file = join(await tempDir(t), 'count')
  await writeFile(file, titles)
  const reading = readBackendCount(file, { ...options, signal: interrupt.signal })
  await t.rejects(reading, { name: 'AbortError' })
})
