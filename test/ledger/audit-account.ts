// One account with a journal that takes many reads, while it is charged, archived and no longer asked for.

import { mock } from 'node:test'
import t from 'tap'
import { auditAccount } from '../../src/ledger/audit-account.ts'
import { createArchive } from '../../src/ledger/archive.ts'
import { diskStore } from '../../src/store/disk.ts'
import { keys } from '../../src/redis/keys.ts'
import { auditPlace, makeAccount, openOn, request, topUp, used } from '../fixtures/ledger.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

const server = (await openOn(t)).server

/** An account with so many top-ups of 1. */
async function openWith(t: Parameters<typeof openOn>[0], count: number) {
  const { link, ledger } = await openOn(t, { on: server })
  const caller = await makeAccount(link)
  const { ref } = caller
  const some = 500
  for (let i = 0; i < count; i += some)
    await Promise.all(
      Array.from({ length: Math.min(some, count - i) }, () => topUp(ledger, caller, 1)),
    )
  const spend = async () => ledger.settle(await ledger.admit(request(caller, 1)), used(1))
  return { link, ledger, caller, ref, spend, place: auditPlace(link) }
}

t.test('a long journal adds up, and a difference in its middle is found', async (t) => {
  const { link, ref, place } = await openWith(t, 1234)
  const counted: number[] = []
  const onEntries = (count: number) => void counted.push(count)
  const tally = await auditAccount(place, ref, { onEntries })
  t.match(tally, { entries: 1234, differenceCount: 0 })
  t.equal(
    counted.reduce((sum, one) => sum + one),
    1234,
  )
  t.ok(Math.max(...counted) <= 50, 'in pages')
  const some = await link.client.xrange(keys.journal(ref), '-', '+', 'COUNT', 700)
  await link.client.xdel(keys.journal(ref), some.at(-1)?.[0] ?? '')
  t.match(await auditAccount(place, ref, { onEntries }), { entries: 1233, differenceCount: 2 })
})

t.test('journals of every length at which a read ends add up', async (t) => {
  for (const count of [0, 1, 9, 10, 11, 59, 60, 61, 110]) {
    const { ref, place } = await openWith(t, count)
    const tally = await auditAccount(place, ref, { onEntries: () => undefined })
    t.match(tally, { entries: count, differenceCount: 0 }, `${count} entries`)
  }
})

t.test('charged at each read, it still adds up', async (t) => {
  const { ref, spend, place } = await openWith(t, 400)
  const charging: Promise<unknown>[] = []
  const onEntries = () => {
    // More than one read of the script takes, but not without end.
    if (charging.length < 100) for (let i = 0; i < 12; i++) charging.push(spend())
  }
  const tally = await auditAccount(place, ref, { onEntries })
  t.equal(tally.differenceCount, 0)
  await Promise.all(charging)
  t.ok(tally.entries > 400, `${tally.entries} entries`)
})

t.test('archived while it is read, it is read again', async (t) => {
  const { ref, link, place } = await openWith(t, 300)
  const store = diskStore(await tempDir(t))
  const other = auditPlace((await openOn(t, { on: server })).link)
  const archive = createArchive({ ...other, store })
  const read = link.client.xrange.bind(link.client) as (...args: unknown[]) => Promise<unknown>
  let moved: Promise<number> | undefined
  const first = async (...args: unknown[]) => {
    await (moved ??= archive.archive(ref, Date.now() + 1000))
    return read(...args)
  }
  mock.method(link.client, 'xrange', first as never)
  const counted: number[] = []
  const onEntries = (count: number) => void counted.push(count)
  const tally = await auditAccount({ ...place, archive }, ref, { onEntries })
  t.equal(await moved, 300)
  t.match(tally, { entries: 300, differenceCount: 0 })
  const sum = counted.reduce((sum, one) => sum + one)
  t.equal(sum, 300, 'what was read again is counted once')
  t.ok(counted[0] === 10 && counted.includes(-10), 'it was read again')
})

t.test('archived at each read, it is refused as what can be tried again', async (t) => {
  const { ref, link, place } = await openWith(t, 20)
  const read = link.client.xrange.bind(link.client) as (...args: unknown[]) => Promise<unknown>
  const archiving = async (...args: unknown[]) => {
    await link.client.hincrby(keys.account(ref), 'archived', 1)
    return read(...args)
  }
  mock.method(link.client, 'xrange', archiving as never)
  const work = auditAccount(place, ref, { onEntries: () => undefined })
  await t.rejects(work, { code: 'ledger_unavailable' })
})

t.test('a caller who leaves in the middle of a long journal ends the reads', async (t) => {
  const { link, ref, place } = await openWith(t, 1000)
  const leaving = new AbortController()
  const reason = new Error('left')
  let pages = 0
  const work = auditAccount(place, ref, {
    signal: leaving.signal,
    onEntries: () => void (++pages === 3 && leaving.abort(reason)),
  })
  await t.rejects(work, reason)
  t.equal(pages, 3)
  // Its turn was given back.
  await until(() =>
    auditAccount(auditPlace(link), ref, { onEntries: () => undefined }).then(() => true),
  )
})
