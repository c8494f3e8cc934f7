import t from 'tap'
import type { Test } from 'tap'
import { createAdmin } from '../../src/cli/admin.ts'
import type { Call } from '../../src/cli/command.ts'
import { collect, tellPages } from '../../src/cli/list.ts'
import { startAdmin } from '../fixtures/admin-listener.ts'
import { startCli } from '../fixtures/cli.ts'
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
})

t.test('pages without rows change nothing, wherever they come', async (t) => {
  const columns = [{ title: 'N', cell: String }]
  const printed = async (isJson: boolean, pages: readonly (readonly number[])[]) => {
    let out = ''
    const stdout = { write: (text: string) => void (out += text) }
    await tellPages({ io: { stdout }, isJson } as unknown as Call, columns, pages)
    return out
  }
  for (const pages of [[[1, 2]], [[], [], [1], [], [2], []]]) {
    t.equal(await printed(true, pages), '{"object":"list","data":[1,2]}\n')
    t.equal(await printed(false, pages), 'N\n1\n2\n')
  }
  t.equal(await printed(true, [[], []]), '{"object":"list","data":[]}\n')
  t.equal(await printed(false, [[], []]), 'N\n')
})

/** 101 accounts: a page, and one more account. */
async function startWithTwoPages(t: Test) {
  const started = await startCli(t)
  for (let i = 0; i < 101; i++) await started.accounts.createAccount({ name: `n${i}` })
  return started
}

t.test('a list is printed page by page, in lines of one width', async (t) => {
  const { cliWith } = await startWithTwoPages(t)
  const pages: string[] = []
  const { out, code } = await cliWith({ onOutput: (text) => pages.push(text) })('accounts', 'list')
  t.equal(code, 0)
  t.strictSame(
    pages.map((page) => page.split('\n').length - 1),
    [101, 1],
  )
  t.equal(
    new Set(
      out
        .trimEnd()
        .split('\n')
        .map((line) => line.indexOf('default')),
    ).size,
    2,
  )
})

t.test('a reader that has seen enough ends the list', async (t) => {
  const { cliWith } = await startWithTwoPages(t)
  const enough = new AbortController()
  const io = { signal: enough.signal, onOutput: () => enough.abort() }
  t.equal((await cliWith(io)('accounts', 'list')).out.split('\n').length, 102)
})

t.test('pages in JSON are one list', async (t) => {
  const { cli, accounts } = await startCli(t)
  const listed = async () => (await cli('accounts', 'list', '--json')).out
  t.equal(await listed(), '{"object":"list","data":[]}\n')
  for (let i = 0; i < 101; i++) await accounts.createAccount({ name: `n${i}` })
  const { data } = JSON.parse(await listed()) as { data: readonly { name: string }[] }
  t.strictSame(
    data.map(({ name }) => name),
    Array.from({ length: 101 }, (_, i) => `n${i}`),
  )
})

t.test('a gateway that refuses leaves the output empty', async (t) => {
  const { cli } = await startCli(t)
  const { out, code } = await cli('accounts', 'list', '--json', '--token', 'wrong')
  t.strictSame({ out, code }, { out: '', code: 77 })
})
