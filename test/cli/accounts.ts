import t from 'tap'
import { startCli } from '../fixtures/cli.ts'

t.test('an account is created, shown, changed, suspended and resumed', async (t) => {
  const { cli, call } = await startCli(t)
  const given = ['--plan', 'big', '--external-id', 'x', '--metadata', 'a=1', '--metadata', 'b=2']
  const created = await cli('accounts', 'create', 'Ana & Co', ...given)
  t.equal(created.code, 0, created.err)
  t.match(
    created.out,
    /^id +acct_[0-9a-f]{32}\nname +Ana & Co\nplan +big\nstatus +active\nexternal id +x\nmetadata +a=1 b=2\n/,
  )
  t.equal((await cli('accounts', 'show', 'Ana & Co')).out, created.out)
  t.match((await cli('accounts', 'suspend', 'Ana & Co')).out, /status +suspended/)
  t.match((await call('GET accounts')).body.data, [{ status: 'suspended' }])
  t.match((await cli('accounts', 'resume', 'Ana & Co')).out, /status +active/)
  t.match((await cli('accounts', 'set', 'Ana & Co', '--name', 'Ana')).out, /name +Ana\n/)
  const shown = await cli('accounts', 'show', 'Ana', '--json')
  t.match(JSON.parse(shown.out), { object: 'account', name: 'Ana', metadata: { a: '1', b: '2' } })
})

t.test('an account has a budget, which can be changed and taken away', async (t) => {
  const { cli } = await startCli(t)
  const created = await cli('accounts', 'create', 'a', '--budget', '100000/month')
  t.match(created.out, /\nbudget +0 of 100,000 a month\n/)
  t.match((await cli('accounts', 'set', 'a', '--budget', '7/week')).out, /budget +0 of 7 a week\n/)
  t.match((await cli('balance', 'a')).out, /budget +0 of 7 a week\n/)
  t.notMatch((await cli('accounts', 'set', 'a', '--budget', 'none')).out, /budget/)
})

t.test('the account of a customer is found by what the own system calls it', async (t) => {
  const { cli } = await startCli(t)
  for (const id of ['cus_1', 'cus_2&limit=1']) {
    await cli('accounts', 'create', `of ${id}`, '--external-id', id)
    const { out } = await cli('accounts', 'list', '--external-id', id)
    t.same(out.match(/of cus_\d\S*/g), [`of ${id}`])
  }
  const none = await cli('accounts', 'list', '--external-id', 'cus_3', '--json')
  t.same(JSON.parse(none.out), { object: 'list', data: [] })
})

t.test(
  'what the gateway refuses ends with 1 and its reason, what makes no sense with 2',
  async (t) => {
    const { cli } = await startCli(t)
    const refused = await cli('accounts', 'create', 'a', '--plan', 'none')
    t.match(refused, {
      code: 1,
      out: '',
      err: /^tollgate: "plan" must .* default or big.*\(invalid_parameter, req_/,
    })
    t.match(await cli('accounts', 'show', 'nobody'), { code: 1, err: /account_not_found/ })
    t.match(await cli('accounts', 'set', 'a'), { code: 2, err: /Nothing to change/ })
    t.match(await cli('accounts', 'create', 'a', '--metadata', 'x'), { code: 2 })
  },
)

t.test('the list has all accounts over all pages, oldest first, or the newest', async (t) => {
  const { cli, accounts } = await startCli(t)
  t.equal((await cli('accounts', 'list')).out, 'ID  NAME  PLAN  STATUS  CREATED\n')
  const names = Array.from({ length: 205 }, (_, i) => `n${i}`)
  for (const name of names) await accounts.createAccount({ name })
  const listed = async (...options: readonly string[]) => {
    const { out } = await cli('accounts', 'list', '--json', ...options)
    const { data } = JSON.parse(out) as { data: readonly { name: string }[] }
    return data.map(({ name }) => name)
  }
  t.strictSame(await listed(), names)
  t.strictSame(await listed('--limit', '2'), names.slice(-2))
  t.strictSame(await listed('--limit', '150'), names.slice(-150))
  t.equal((await cli('accounts', 'list')).out.split('\n').length, 207)
})

t.test('the same --idempotency-key creates one account', async (t) => {
  const { cli } = await startCli(t)
  const create = () => cli('accounts', 'create', 'a', '--idempotency-key', 'k')
  t.equal((await create()).out, (await create()).out)
  t.equal((await cli('accounts', 'list')).out.split('\n').length, 3)
})

t.test('an account is deleted, with its tokens only by --forfeit, and listed apart', async (t) => {
  const { cli, call } = await startCli(t)
  const { id } = (await call('POST accounts', { name: 'Ana' })).body
  await call(`POST accounts/${id}/topup`, { amount: 5 })
  t.match(await cli('accounts', 'delete', 'Ana'), {
    code: 1,
    out: '',
    err: /has 5 tokens, .* or forfeit that\. \(account_not_empty/,
  })
  const deleted = await cli('accounts', 'delete', 'Ana', '--forfeit')
  t.match(deleted, { code: 0, out: /^id +acct_\w+\nplan +default\nstatus +deleted\n/ })
  t.equal((await cli('accounts', 'list')).out.split('\n').length, 2)
  const { out } = await cli('accounts', 'list', '--deleted', '--json')
  t.match(JSON.parse(out), { data: [{ id, status: 'deleted' }] })
  t.match((await cli('transactions', id)).out, /adjustment/)
  t.equal((await cli('audit')).code, 0)
})
