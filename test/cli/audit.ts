import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import t from 'tap'
import type { Test } from 'tap'
import { runCli, startCli } from '../fixtures/cli.ts'
import { freePort } from '../fixtures/free-port.ts'
import { adminToken, spawnGateway } from '../fixtures/gateway.ts'
import { keys } from '../../src/redis/keys.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { listenOn } from '../fixtures/listen.ts'

t.test(
  'an audit ends with 0 if everything agrees, and with 1 and the differences if not',
  async (t) => {
    const { cli, accounts, link } = await startCli(t)
    const { ref, account } = await accounts.createAccount({ name: 'a' })
    const other = await accounts.createAccount({ name: 'b' })
    await cli('topup', 'a', '5')
    t.match(await cli('audit'), {
      code: 0,
      out: '2 accounts, 1 journal entry: everything adds up.\n',
      err: '',
    })
    await link.client.hincrby(keys.account(ref), 'granted', 1)
    const { code, out } = await cli('audit', 'a')
    t.equal(code, 1)
    t.match(out, /^ACCOUNT +WHAT +EXPECTED +FOUND\n/)
    t.match(out, new RegExp(`${account.id} +granted +5 +6\n`))
    const report = JSON.parse((await cli('audit', '--json')).out)
    const counts = { accounts: 2, entries: 1, difference_count: 2, late: 0 }
    t.match(report, { object: 'audit', ...counts, differences: [{ what: 'granted' }, {}] })
    t.match(await cli('audit', 'b'), { code: 0, out: /^1 account, 0 journal entries: everything/ })
    t.match(await cli('audit', '--after', account.id), { code: 0, out: /^1 account,/ })
    t.match(await cli('audit', '--after', other.account.id), { code: 0, out: /^0 accounts,/ })
    t.match(await cli('audit', 'a', '--after', account.id), { code: 2 })
    t.match(await cli('audit', '--after', 'a'), { code: 1, err: /invalid_parameter/ })
    t.match(await cli('audit', 'nobody'), { code: 1, err: /account_not_found/ })
  },
)

type Answering = (query: URLSearchParams, res: ServerResponse) => void

/** An admin listener that answers audits as it is told, one after the other. */
async function startAudits(t: Test, answers: readonly Answering[]) {
  const asked: string[] = []
  const server = createServer((req: IncomingMessage, res: ServerResponse) => {
    const query = new URL(req.url ?? '', 'http://x').searchParams
    const answer = answers[asked.length]
    asked.push(query.get('after') ?? '')
    res.setHeader('Content-Type', 'application/x-ndjson')
    answer?.(query, res)
  })
  const { url } = await listenOn(t, server)
  const env = { TOLLGATE_ADMIN_TOKEN: 'x' }
  const audit = (io: Parameters<typeof runCli>[1] = {}, ...words: string[]) =>
    runCli(['audit', ...words, '--admin', url], { env, ...io })
  return { asked, audit }
}

const progress = (accounts: number, cursor: string | null, found = 0) =>
  `${JSON.stringify({ object: 'audit.progress', accounts, entries: 2 * accounts, difference_count: found, total: 30, cursor })}\n`
const end = (accounts: number, found = 0) =>
  `${JSON.stringify({ object: 'audit.end', accounts, entries: 2 * accounts, difference_count: found, late: 1 })}\n`
const difference = (what: string, expected: number | null = 1) =>
  `${JSON.stringify({ object: 'audit.difference', ref: 'r', account_id: 'acct_x', what, expected, found: 2 })}\n`
/** Writes, and breaks off when all was received. */
const breaking = (text: string) => (_: unknown, res: ServerResponse) =>
  void res.write(text, () => setImmediate(() => res.destroy()))
const whole = (text: string) => (_: unknown, res: ServerResponse) => void res.end(text)

t.test(
  'a gateway that breaks off is asked again, from where it was, and nothing counts twice',
  async (t) => {
    const { asked, audit } = await startAudits(t, [
      breaking(
        progress(0, null) + difference('one') + progress(10, 'acct_10', 1) + difference('two'),
      ),
      breaking(progress(0, 'acct_10')),
      whole(
        `${progress(0, 'acct_10') + progress(5, 'acct_15')}{"error":{"message":"Away.","code":"ledger_unavailable"},"request_id":"req_1"}\n`,
      ),
      whole(progress(0, 'acct_15') + difference('two') + end(15, 1)),
    ])
    const { code, out, err } = await audit({}, '--json')
    t.strictSame(asked, ['', 'acct_10', 'acct_10', 'acct_15'])
    t.equal(code, 1)
    t.equal(err, '')
    const { differences, ...report } = JSON.parse(out)
    const counts = { accounts: 30, entries: 60, difference_count: 2, late: 1 }
    t.strictSame(report, { object: 'audit', ...counts })
    t.match(differences, [{ what: 'one' }, { what: 'two' }])
  },
)

t.test('of a charge that cannot be read, nothing is expected', async (t) => {
  const { audit } = await startAudits(t, [whole(difference('charge of txn_1', null) + end(1, 1))])
  const { code, out } = await audit()
  t.equal(code, 1)
  t.match(out, /acct_x +charge of txn_1 +- +2\n/)
})

t.test('what never said a word is not asked for long', async (t) => {
  const { asked, audit } = await startAudits(t, [breaking('')])
  t.match(await audit(), { code: 69, out: '', err: /broke off/ })
  t.equal(asked.length, 1)
})

t.test('what the gateway says of a failure has the id of the request', async (t) => {
  const error = { message: 'Report the request id.', code: 'internal_error' }
  const { audit } = await startAudits(t, [
    whole(`${JSON.stringify({ error, request_id: 'req_1' })}\n`),
  ])
  t.match(await audit(), { code: 69, err: /Report the request id\. \(internal_error, req_1\)/ })
})

t.test('an audit that is interrupted says from where it can go on', async (t) => {
  const { audit } = await startAudits(t, [
    (_, res) => void res.write(progress(0, null) + difference('one') + progress(10, 'acct_10', 1)),
  ])
  const stopping = new AbortController()
  const stderr = {
    isTTY: true,
    onError: (text: string) => text.includes('10 of 30') && stopping.abort(),
  }
  const { code, out, err } = await audit({ ...stderr, signal: stopping.signal })
  t.equal(code, 1)
  t.match(out, /acct_x +one +1 +2\n10 accounts, 20 journal entries: 1 difference\.\n$/)
  t.ok(err.includes('\r0 of 30 accounts, 0 journal entries, 0 differences\x1b[K\r10 of 30'))
  t.match(err, /Stopped after 10 of 30 accounts, .* To go on: tollgate audit --after acct_10\n$/)
})

t.test('a gateway that is killed in the middle of an audit, and started again', async (t) => {
  const redis = await startRedis(t)
  const [port, adminPort] = [await freePort(), await freePort()]
  const setup = { yaml: 'models: { demo: { targets: [demo] } }\n', redis, port, adminPort }
  const first = await spawnGateway(t, setup)
  const made = Array.from({ length: 300 }, (_, i) =>
    first.admin('POST', 'accounts', { name: `a${i}` }),
  )
  for (const one of await Promise.all(made)) t.equal(one.status, 201)
  let again: Promise<unknown> | undefined
  const restart = async () => {
    await first.kill()
    await spawnGateway(t, setup)
  }
  const words = ['audit', '--admin', first.adminUrl]
  const env = { TOLLGATE_ADMIN_TOKEN: adminToken }
  const onError = (text: string) => void (text.includes('of 300') && (again ??= restart()))
  t.match(await runCli(words, { env, isTTY: true, onError }), {
    code: 0,
    out: '300 accounts, 0 journal entries: everything adds up.\n',
  })
  t.ok(again, 'it was killed')
  await again
})
