import t from 'tap'
import { createAdmin } from '../../src/cli/admin.ts'
import { collect, listJson } from '../../src/cli/pages.ts'
import { startAdmin } from '../fixtures/admin-listener.ts'
import { adminToken } from '../fixtures/gateway.ts'

t.test('pages are followed to the end or to the limit, each row once', async (t) => {
  const { url, accounts } = await startAdmin(t)
  const admin = createAdmin({ url: new URL(url), token: adminToken })
  const all = { order: 'asc' } as const
  t.strictSame(await collect(admin, 'accounts', all), [])
  const ids: string[] = []
  for (let i = 0; i < 101; i++) {
    ids.push((await accounts.createAccount({ name: `n${i}` })).account.id)
  }
  const idsOf = (rows: readonly { id: string }[]) => rows.map(({ id }) => id)
  t.strictSame(idsOf(await collect(admin, 'accounts', all)), ids)
  t.strictSame(idsOf(await collect(admin, 'accounts', { ...all, limit: 100 })), ids.slice(0, 100))
  t.strictSame(idsOf(await collect(admin, 'accounts', { order: 'desc', limit: 1 })), ids.slice(-1))
  t.strictSame(listJson([]), { object: 'list', data: [] })
})
