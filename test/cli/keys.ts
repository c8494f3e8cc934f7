import { Readable } from 'node:stream'
import t from 'tap'
import { newKeySeed } from '../../src/accounts/account-keys.ts'
import { parseKey } from '../../src/accounts/api-key.ts'
import { startCli } from '../fixtures/cli.ts'

t.test('a new key is all that stdout has, so that a shell can take it', async (t) => {
  const { cli, accounts } = await startCli(t)
  const { ref } = await accounts.createAccount({ name: 'a' })
  const { code, out, err } = await cli('keys', 'create', '--account', 'a', '--name', 'laptop')
  t.equal(code, 0, err)
  t.strictSame(parseKey(out.trim()), { ref })
  t.match(err, /^key_[0-9a-f]{32}: keep the key/)
  const list = await cli('keys', 'list', 'a')
  t.match(list.out, /^ID +NAME +KEY +SCOPES .*\nkey_[0-9a-f]{32} +laptop +tg_live_….{4} /)
  t.notOk(list.out.includes(out.trim().slice(-36)), 'never shown again')
  t.equal((await cli('keys', 'list', '--account', 'a')).out, list.out)
})

t.test('a key gets the limits that are asked for', async (t) => {
  const { cli, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  const scopes = ['--scopes', 'chat,billing', '--models', 'nick', '--expires', '90d']
  const limits = ['--requests-per-minute', '1', '--tokens-per-minute', '2', '--concurrency', '3']
  const { out } = await cli('keys', 'create', '--account', 'a', '--json', ...scopes, ...limits)
  const key = JSON.parse(out) as { expires_at: number }
  t.match(key, {
    key: /^tg_live_/,
    scopes: ['chat', 'billing'],
    models: ['m'],
    limits: { requests_per_minute: 1, tokens_per_minute: 2, concurrency: 3 },
  })
  t.ok(Math.abs(key.expires_at - Date.now() / 1000 - 90 * 86_400) < 60)
})

t.test('a key has a budget, which can be changed and taken away', async (t) => {
  const { cli, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  const made = ['keys', 'create', '--account', 'a', '--json', '--budget', '100_000/month']
  const { id, budget } = JSON.parse((await cli(...made)).out) as { id: string; budget: object }
  t.same(budget, { tokens: 100_000, every: 'month', used: 0, renews_at: null })
  t.match((await cli('keys', 'set', id, '--budget', '5/day')).out, / 0 of 5 a day /)
  t.match((await cli('keys', 'list', 'a')).out, /BUDGET .*\n.* 0 of 5 a day /)
  const none = await cli('keys', 'set', id, '--budget', 'none', '--json')
  t.match(JSON.parse(none.out), { id, budget: null })
  t.match(await cli('keys', 'set', id), { code: 2, err: /Give --budget/ })
  t.match(await cli('keys', 'set', id, '--budget', '5'), { code: 2, err: /is no budget/ })
})

t.test('a key is revoked, and rotated with a grace', async (t) => {
  const { cli, accounts } = await startCli(t)
  const { ref } = await accounts.createAccount({ name: 'a' })
  const { id } = await accounts.createKey(ref, { name: 'n' })
  const rotated = await cli('keys', 'rotate', id, '--grace', '1h')
  t.match(rotated, { code: 0, out: /^tg_live_\w+\n$/ })
  const [old] = await accounts.listKeys(ref)
  t.ok(Math.abs(Number(old?.expires_at) - Date.now() / 1000 - 3600) < 60)
  t.match(await cli('keys', 'revoke', id), { code: 0, out: `${id} is revoked.\n` })
  t.equal((await accounts.listKeys(ref))[0]?.status, 'revoked')
})

t.test("a key's text is not accepted as its id, and an account must be named", async (t) => {
  const { cli } = await startCli(t)
  const secret = await cli('keys', 'revoke', 'tg_live_secret')
  t.equal(secret.code, 2)
  t.notMatch(secret.err, /tg_live_secret/)
  t.match(await cli('keys', 'create'), { code: 2, err: /--account/ })
  t.match(await cli('keys', 'list'), { code: 2, err: /--account/ })
  t.match(await cli('keys', 'revoke', 'key_none'), { code: 1, err: /key_not_found/ })
})

t.test('keys can be told apart and named by their last letters', async (t) => {
  const { cli, accounts } = await startCli(t)
  const { ref } = await accounts.createAccount({ name: 'a' })
  const other = await accounts.createAccount({ name: 'b' })
  const [one, two] = [await accounts.createKey(ref, {}), await accounts.createKey(ref, {})]
  const three = await accounts.createKey(other.ref, {})
  t.not(one.hint, two.hint)
  t.match(await cli('keys', 'revoke', two.hint, '--account', 'b'), { code: 2, err: /No active/ })
  t.match(await cli('keys', 'revoke', two.hint, '--account', 'a'), {
    code: 0,
    out: `${two.id} is revoked.\n`,
  })
  t.match(await cli('keys', 'revoke', two.hint, '--account', 'a'), {
    code: 2,
    err: /No active key ends with these characters/,
  })
  t.match(await cli('keys', 'revoke', three.key.slice(-4)), {
    code: 0,
    out: `${three.id} is revoked.\n`,
  })
  t.match(await cli('keys', 'revoke', three.hint), { code: 2, err: /No active key ends/ })
  t.match(await cli('keys', 'revoke', one.key.slice(-5)), { code: 2, err: /Give the id/ })
  t.strictSame(
    (await accounts.listKeys(ref)).map(({ status }) => status),
    ['active', 'revoked'],
  )
  const rotated = await cli('keys', 'rotate', one.key.slice(-4), '--account', 'a')
  t.match(rotated, { code: 0, err: /keep the key/ })
  t.equal((await accounts.listKeys(ref))[0]?.status, 'revoked')
})

t.test('an end that keys of two accounts have names none of them', async (t) => {
  const { cli, accounts } = await startCli(t)
  const seed = newKeySeed((await accounts.createAccount({ name: 'a' })).ref)
  const [one, two] = [
    await accounts.createAccount({ name: 'one' }),
    await accounts.createAccount({ name: 'two' }),
  ]
  for (const { ref } of [one, two]) {
    const { id } = newKeySeed(ref)
    await accounts.createKey(ref, {}, { ...seed, id })
  }
  const { code, err } = await cli('keys', 'revoke', seed.text.slice(-4))
  t.match({ code, err }, { code: 2, err: /Several active keys end/ })
})

t.test('keys find: the key comes by stdin and is in no answer', async (t) => {
  const { cliWith, accounts } = await startCli(t)
  const { ref, account } = await accounts.createAccount({ name: 'owner' })
  const { key, id: keyId } = await accounts.createKey(ref, { name: 'laptop' })
  const find = (text: string) =>
    cliWith({ stdin: Readable.from([text.slice(0, 10), `${text.slice(10)}\n`]) })('keys', 'find')
  const { code, out, err } = await find(key)
  t.equal(code, 0, err)
  t.ok(out.startsWith(`owner (${account.id})\n`))
  t.match(out, new RegExp(`${keyId} +laptop`))
  t.notOk(out.includes(key.slice(-36)))
  t.match(await find(`${key.slice(0, -1)}~`), { code: 1, err: /key_not_found/ })
  t.match(await find('x'.repeat(2000)), { code: 2, err: /too long to be a key/ })
})
