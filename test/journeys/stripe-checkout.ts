// The recipe of docs/payments.md: the script as an operator starts it, a webhook after Stripe's documented payload with
// a signature by a test's secret, and a gateway that is paid.

import { createHmac } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { freePort } from '../fixtures/free-port.ts'
import { adminToken, startGateway } from '../fixtures/gateway.ts'
import type { Account, InProcess } from '../fixtures/gateway.ts'
import { differencesOf, transactionsOf } from '../fixtures/money.ts'
import { startProcess } from '../fixtures/process.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const folder = new URL('../../config/examples/payments/', import.meta.url)
const recorded = await readFile(
  new URL('../fixtures/stripe/checkout.session.completed.json', import.meta.url),
  'utf8',
)
const secret = 'whsec_test_secret'
const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n"

interface Event {
  readonly type?: string
  /** Fields of the session that differ from those that were recorded. */
  readonly session?: Readonly<Record<string, unknown>>
}

interface Delivery extends Event {
  readonly secret?: string
  readonly ageS?: number
  /** In place of the header that is made. */
  readonly header?: string
  /** What is sent in place of what was signed. */
  readonly forged?: string
}

/** The script of the recipe, and deliveries to it. */
async function startScript(t: Test, admin: string, env: object = {}) {
  const example = JSON.parse(await readFile(new URL('stripe-checkout.json', folder), 'utf8'))
  const file = join(await tempDir(t), 'stripe-checkout.json')
  await writeFile(
    file,
    JSON.stringify({ ...example, listen: { host: '127.0.0.1', port: 0 }, admin }),
  )
  const script = new URL('stripe-checkout.mjs', folder).pathname
  const running = startProcess(t, [process.execPath, script, file], {
    env: { STRIPE_WEBHOOK_SECRET: secret, TOLLGATE_ADMIN_TOKEN: adminToken, ...env },
  })
  const [, url = ''] = await running.said(/listening on (\S+)/)
  const deliver = async (account: string, delivery: Delivery = {}) => {
    const body = eventFor(account, delivery)
    const { header = signatureOf(body, delivery), forged = body } = delivery
    const headers = { 'content-type': 'application/json', 'stripe-signature': header }
    const answer = await fetch(url, { method: 'POST', body: forged, headers })
    await answer.text()
    return answer.status
  }
  return { ...running, url, deliver }
}

function eventFor(account: string, { type, session }: Event): string {
  const event = JSON.parse(recorded)
  Object.assign(event, type && { type })
  Object.assign(event.data.object, { client_reference_id: account, ...session })
  return JSON.stringify(event, null, 2)
}

function signatureOf(body: string, { secret: by = secret, ageS = 0 }: Delivery): string {
  const time = Math.floor(Date.now() / 1000) - ageS
  const hmac = createHmac('sha256', by).update(`${time}.${body}`).digest('hex')
  return `t=${time},v1=${hmac},v0=${'0'.repeat(64)}`
}

const topUpsOf = async (gateway: InProcess, account: Account) =>
  (await transactionsOf(gateway, account)).map(({ type, amount }) => [type, amount])

const gateway = await startGateway(t, { yaml })

t.test('a payment is paid once, however often and at the same time it is told', async (t) => {
  const account = await gateway.account(0)
  const { deliver, url } = await startScript(t, gateway.adminUrl)
  const all = await Promise.all(Array.from({ length: 8 }, () => deliver(account.id)))
  t.ok(
    all.every((status) => status === 200),
    String(all),
  )
  t.equal(await deliver(account.id), 200, 'again, later')
  t.strictSame(await topUpsOf(gateway, account), [['topup', 1_000_000]])
  const next = { payment_intent: 'pi_2', amount_total: 1500, currency: 'jpy' }
  t.equal(await deliver(account.id, { session: next }), 200)
  t.equal((await topUpsOf(gateway, account)).length, 2, 'another payment')
  t.equal((await fetch(url)).status, 405)
  t.equal((await fetch(new URL('/', url), { method: 'POST' })).status, 404)
  t.strictSame(await differencesOf(gateway), [])
})

t.test('it is found by its id, from the first delivery on', async (t) => {
  const account = await gateway.account(0)
  const { deliver } = await startScript(t, gateway.adminUrl)
  t.equal(await deliver(account.id, { session: { payment_intent: 'pi_found' } }), 200)
  const path = `accounts/${account.id}/transactions?reference=pi_found`
  const { data } = (await (await gateway.admin('GET', path)).json()) as { data: object[] }
  t.match(data, [
    { type: 'topup', amount: 1_000_000, reference: 'pi_found', note: /^Stripe cs_test_/ },
  ])
})

t.test('what Stripe has not signed, or not now, changes nothing', async (t) => {
  const account = await gateway.account(0)
  const { deliver, url } = await startScript(t, gateway.adminUrl)
  const body = eventFor(account.id, {})
  const forged = eventFor(account.id, { session: { amount_total: 5000 } })
  const good = signatureOf(body, {})
  const cases: readonly (readonly [string, Delivery])[] = [
    ['another secret', { secret: 'whsec_other' }],
    ['another body', { forged }],
    ['one more byte', { forged: `${body}\n` }],
    ['too old', { ageS: 301 }],
    ['of a time to come', { ageS: -400 }],
    [
      'a time that was not signed',
      { header: good.replace(/t=\d+/, `t=${Math.floor(Date.now() / 1000) + 1}`) },
    ],
    ['no time', { header: good.replace(/t=\d+,/, '') }],
    ['a scheme of the past', { header: good.replace('v1=', 'v0=') }],
    ['half a signature', { header: good.slice(0, 60) }],
    ['no signature', { header: '' }],
  ]
  for (const [what, delivery] of cases) t.equal(await deliver(account.id, delivery), 400, what)
  const large = await fetch(url, { method: 'POST', body: 'x'.repeat(300_000) })
  t.equal(large.status, 413)
  t.strictSame(await topUpsOf(gateway, account), [])
  t.equal(await deliver(account.id, { ageS: 290 }), 200, 'a slow network')
})

t.test('while a secret is replaced, both are good, and either of several signatures', async (t) => {
  const account = await gateway.account(0)
  const env = { STRIPE_WEBHOOK_SECRET: `whsec_new,${secret}` }
  const { deliver } = await startScript(t, gateway.adminUrl, env)
  for (const one of [secret, 'whsec_new']) t.equal(await deliver(account.id, { secret: one }), 200)
  const body = eventFor(account.id, {})
  const header = signatureOf(body, {}).replace(',v1=', `,v1=${'0'.repeat(64)},v1=`)
  t.equal(await deliver(account.id, { header }), 200)
})

t.test('an empty secret, which everybody knows, starts nothing', async (t) => {
  for (const empty of [`${secret},`, `,${secret}`, ' ']) {
    const env = { STRIPE_WEBHOOK_SECRET: empty }
    await t.rejects(startScript(t, gateway.adminUrl, env), /exit 1: .*STRIPE_WEBHOOK_SECRET/s)
  }
})

t.test('only what was paid counts, also when the money comes later', async (t) => {
  const account = await gateway.account(0)
  const { deliver } = await startScript(t, gateway.adminUrl)
  const session = { payment_status: 'unpaid', payment_intent: 'pi_bank' }
  t.equal(await deliver(account.id, { session }), 200)
  t.equal(await deliver(account.id, { type: 'checkout.session.expired' }), 200)
  t.equal(await deliver(account.id, { session: { payment_status: 'no_payment_required' } }), 200)
  t.equal(await deliver(account.id, { session: { mode: 'subscription' } }), 200)
  t.equal(
    await deliver(account.id, { type: 'checkout.session.async_payment_failed', session }),
    200,
  )
  t.strictSame(await topUpsOf(gateway, account), [])
  const type = 'checkout.session.async_payment_succeeded'
  const paid = { ...session, payment_status: 'paid' }
  for (const _ of [1, 2]) t.equal(await deliver(account.id, { type, session: paid }), 200)
  t.strictSame(await topUpsOf(gateway, account), [['topup', 1_000_000]])
})

t.test('what cannot be paid now is refused, so that Stripe tells it again', async (t) => {
  const account = await gateway.account(0)
  const port = await freePort()
  const { deliver } = await startScript(t, `http://127.0.0.1:${port}`)
  t.equal(await deliver(account.id), 503, 'the gateway is away')
  const back = await startGateway(t, { yaml, redis: gateway.redis, adminPort: port })
  t.equal(await deliver(account.id), 200, 'it is back')
  t.strictSame(await topUpsOf(back, account), [['topup', 1_000_000]])
  for (const [status, who, session] of [
    [502, 'acct_00000000000000000000000000000000', {}],
    [422, account.id, { amount_total: 1001 }],
    [422, account.id, { currency: 'chf' }],
    [422, account.id, { currency: 'constructor', amount_total: 'name' }],
    [422, '../keys', {}],
    [422, account.id, { client_reference_id: null }],
  ] as const) {
    t.equal(await deliver(who, { session: { payment_intent: 'pi_odd', ...session } }), status)
  }
  const wrong = await startScript(t, back.adminUrl, { TOLLGATE_ADMIN_TOKEN: 'wrong' })
  t.equal(await wrong.deliver(account.id, { session: { payment_intent: 'pi_3' } }), 502)
  t.notMatch(wrong.log.join('\n'), /wrong\b.*Bearer|whsec/)
  t.strictSame((await topUpsOf(back, account)).length, 1)
  t.equal(await wrong.stop(), 0)
})
