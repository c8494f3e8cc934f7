// Tops up accounts by what Stripe's Checkout was paid: receives Stripe's webhook, checks its signature, and calls the
// gateway's admin API with the payment's id, so that a payment counts once however often it is told. docs/payments.md
//
//   STRIPE_WEBHOOK_SECRET=whsec_… TOLLGATE_ADMIN_TOKEN=… node stripe-checkout.mjs stripe-checkout.json
//
// It needs Node and nothing else, and keeps nothing. Whatever it does not answer with 200, Stripe sends again for three days.

import { createHmac, timingSafeEqual } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'

const file = process.argv[2] ?? 'stripe-checkout.json'
const { listen, admin, tokens } = JSON.parse(readFileSync(file, 'utf8'))
/** Two, with a comma between them, while a secret is being replaced. */
const secrets = needed('STRIPE_WEBHOOK_SECRET')
  .split(',')
  .map((secret) => secret.trim())
// Anybody can sign with an empty secret.
if (secrets.includes(''))
  throw new Error('A secret in STRIPE_WEBHOOK_SECRET is empty. Remove its comma.')
const adminToken = needed('TOLLGATE_ADMIN_TOKEN')

const toleranceS = 300
const maxBytes = 256 * 1024
const gatewayMs = 15_000

/** Either may be the first that says `paid`: a bank transfer is completed before it is paid. */
const paidEvents = ['checkout.session.completed', 'checkout.session.async_payment_succeeded']

function needed(name) {
  const value = process.env[name]
  if (!value) throw new Error(`Set ${name} in the environment.`)
  return value
}

class Refusal extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

const server = createServer(
  { requestTimeout: 20_000, headersTimeout: 10_000 },
  async (req, res) => {
    const { status, text } = await answer(req).catch(refused)
    console.log(`${new Date().toISOString()} ${status} ${text}`)
    res.writeHead(status, { 'content-type': 'text/plain', connection: 'close' }).end(`${text}\n`)
  },
)

function refused(error) {
  if (error instanceof Refusal) return { status: error.status, text: error.message }
  return { status: 500, text: `failed: ${error.message}` }
}

async function answer(req) {
  if (req.url !== '/stripe') throw new Refusal(404, 'the webhook is at /stripe')
  if (req.method !== 'POST') throw new Refusal(405, 'send a POST')
  const body = await bodyOf(req)
  checkSignature(String(req.headers['stripe-signature'] ?? ''), body)
  const event = JSON.parse(body.toString('utf8'))
  const session = event.data?.object
  if (!paidEvents.includes(event.type))
    return { status: 200, text: `${event.id} ignored: ${event.type}` }
  if (session?.mode !== 'payment' || session.payment_status !== 'paid') {
    return {
      status: 200,
      text: `${event.id} ignored: ${session?.mode}, ${session?.payment_status}`,
    }
  }
  return { status: 200, text: `${event.id} ${await topUp(session)}` }
}

async function bodyOf(req) {
  const parts = []
  let size = 0
  for await (const part of req) {
    size += part.length
    if (size > maxBytes) throw new Refusal(413, 'the body is too large')
    parts.push(part)
  }
  return Buffer.concat(parts)
}

/** `t=…,v1=…`: the HMAC of the time, a dot and the body byte for byte. There may be several v1; other schemes are ignored. */
function checkSignature(header, body) {
  const pairs = header.split(',').map((pair) => pair.split('='))
  const time = pairs.find(([name]) => name === 't')?.[1] ?? ''
  const given = pairs
    .filter(([name]) => name === 'v1')
    .map(([, hex = '']) => Buffer.from(hex, 'hex'))
  const isRight = secrets.some((secret) => {
    const expected = createHmac('sha256', secret).update(`${time}.`).update(body).digest()
    return given.some((one) => one.length === expected.length && timingSafeEqual(one, expected))
  })
  if (!isRight) throw new Refusal(400, 'the signature is wrong')
  // Somebody may have recorded the request.
  const ageS = Math.abs(Date.now() / 1000 - Number(time))
  if (!(ageS <= toleranceS)) throw new Refusal(400, 'the signature is too old')
}

async function topUp({ id, client_reference_id: account, payment_intent, amount_total, currency }) {
  if (!/^acct_[0-9a-f]{32}$/.test(account ?? '')) {
    throw new Refusal(422, `${id}: client_reference_id is no account's id`)
  }
  const amount = Object(tokens[currency])[amount_total]
  if (!Number.isSafeInteger(amount)) {
    throw new Refusal(422, `${id}: the table has no tokens for ${amount_total} ${currency}`)
  }
  const reference = payment_intent ?? id
  const answer = await fetch(new URL(`/admin/accounts/${account}/topup`, admin), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${adminToken}`,
      'content-type': 'application/json',
      'idempotency-key': reference,
    },
    body: JSON.stringify({ amount, reference, note: `Stripe ${id}` }),
    signal: AbortSignal.timeout(gatewayMs),
  }).catch((error) => {
    throw new Refusal(503, `${id}: no answer from the gateway: ${error.cause?.code ?? error.name}`)
  })
  const body = await answer.json().catch(() => ({}))
  if (!answer.ok) {
    throw new Refusal(502, `${id}: the gateway refused: ${answer.status} ${body.error?.code}`)
  }
  return `${account} +${amount} ${reference} ${body.id}`
}

server.listen(listen.port, listen.host, () => {
  const { address, port } = server.address()
  console.log(`listening on http://${address}:${port}/stripe`)
})
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => server.close())
