import t from 'tap'
import type { Test } from 'tap'
import { createServer } from 'node:http'
import type { IncomingMessage, RequestListener } from 'node:http'
import { createAdmin, path } from '../../src/cli/admin.ts'
import { listenOn } from '../fixtures/listen.ts'
import { until } from '../fixtures/until.ts'

interface Seen {
  readonly method: string | undefined
  readonly url: string | undefined
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

type Reply = RequestListener

/** A listener that answers each request with the next reply, and further ones with the last. */
async function scripted(t: Test, ...replies: readonly Reply[]) {
  const seen: Seen[] = []
  const server = createServer((req, res) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => {
      const { method, url, headers } = req
      seen.push({ method, url, headers, body: Buffer.concat(chunks).toString() })
      replies[Math.min(seen.length, replies.length) - 1]?.(req, res)
    })
  })
  const { url: address, stop } = await listenOn(t, server)
  const url = new URL(address)
  const written: string[] = []
  const progress = { write: (text: string) => written.push(text) }
  return { seen, written, url, stop, admin: createAdmin({ url, token: 'secret', progress }) }
}

const ok: Reply = (_req, res) => res.end('{"id":"txn_1"}')
const reset: Reply = (req) => req.socket.resetAndDestroy()
const refuse =
  (status: number, code: string): Reply =>
  (_req, res) => {
    res.writeHead(status, { 'content-type': 'application/json' })
    res.end(
      JSON.stringify({
        error: { message: 'No.', type: 'x', param: null, code },
        request_id: 'req_1',
      }),
    )
  }

t.test('a call carries the token, and a POST one Idempotency-Key', async (t) => {
  const { admin, seen } = await scripted(t, ok)
  t.strictSame(await admin.post('accounts/a/topup', { amount: 1 }), { id: 'txn_1' })
  t.match(seen[0], {
    method: 'POST',
    url: '/admin/accounts/a/topup',
    headers: {
      authorization: 'Bearer secret',
      'content-type': 'application/json',
      'idempotency-key': /^[0-9a-f-]{36}$/,
    },
    body: '{"amount":1}',
  })
  await admin.get('accounts')
  t.equal(seen[1]?.headers['idempotency-key'], undefined)
})

t.test('a name in a path cannot leave its segment', async (t) => {
  t.equal(path`accounts/${'../a b/ü?#'}/keys`, 'accounts/..%2Fa%20b%2F%C3%BC%3F%23/keys')
})

t.test('a top-up whose answer was lost is repeated under the same key', async (t) => {
  const { admin, seen } = await scripted(t, reset, refuse(503, 'ledger_unavailable'), ok)
  t.strictSame(await admin.post('accounts/a/topup', { amount: 1 }), { id: 'txn_1' })
  t.equal(seen.length, 3)
  t.equal(new Set(seen.map(({ headers }) => headers['idempotency-key'])).size, 1)
})

t.test('an unclear top-up says how to repeat it safely', async (t) => {
  for (const reply of [reset, refuse(503, 'ledger_unavailable')]) {
    const { url } = await scripted(t, reply)
    const admin = createAdmin({ url, token: 'secret', idempotencyKey: 'my-key' })
    const failed = admin.post('accounts/a/topup', { amount: 1 })
    await t.rejects(failed, { exitCode: 69, message: /--idempotency-key my-key/ })
  }
})

t.test('so does one whose gateway is gone when it is sent again', async (t) => {
  const { url, stop } = await scripted(t, (req) => {
    void stop()
    req.socket.resetAndDestroy()
  })
  const admin = createAdmin({ url, token: 'secret', idempotencyKey: 'my-key' })
  await t.rejects(admin.post('accounts/a/topup', { amount: 1 }), {
    exitCode: 69,
    message: /No gateway answers .*--idempotency-key my-key/s,
  })
})

t.test('a refusal is not repeated', async (t) => {
  const { admin, seen } = await scripted(t, refuse(409, 'insufficient_balance'))
  await t.rejects(admin.post('accounts/a/adjust', { amount: -1 }), {
    exitCode: 1,
    message: 'No. (insufficient_balance, req_1)',
  })
  t.equal(seen.length, 1)
})

t.test('exit codes: 77 for a refused token, 69 for a gateway that cannot, 1 else', async (t) => {
  const codeOf = async (...replies: readonly Reply[]) => {
    const { admin } = await scripted(t, ...replies)
    return admin.get('accounts').then(
      () => 0,
      (error: { exitCode: number }) => error.exitCode,
    )
  }
  t.equal(await codeOf(refuse(401, 'invalid_admin_token')), 77)
  t.equal(await codeOf(refuse(403, 'origin_not_allowed')), 77)
  t.equal(await codeOf(refuse(404, 'account_not_found')), 1)
  t.equal(await codeOf(refuse(503, 'ledger_unavailable')), 69)
  t.equal(await codeOf((_req, res) => res.end('<html>')), 69)
})

t.test('an absent gateway is reported at once, with its address', async (t) => {
  const { admin, stop, url } = await scripted(t, ok)
  await stop()
  await t.rejects(admin.post('accounts', {}), { exitCode: 69, message: new RegExp(url.host) })
  await t.rejects(admin.post('accounts', {}), { message: /^(?!.*not known)/s })
})

t.test('a call that takes more than a second says so, once', async (t) => {
  const waiting = Promise.withResolvers<() => void>()
  const { admin, written } = await scripted(t, (_req, res) => waiting.resolve(() => res.end('{}')))
  const answer = admin.get('accounts')
  const release = await waiting.promise
  await until(() => written.length > 0)
  release()
  await answer
  t.match(written, [/^Waiting for http/])
})

t.test('an answer that does not come in time ends the call', async (t) => {
  const { admin } = await scripted(t, () => undefined)
  await t.rejects(admin.get('audit', { timeoutMs: 50 }), { exitCode: 69, message: /no answer in/ })
})

t.test('a download is written as it comes; one that breaks off is not repeated', async (t) => {
  const out = () => {
    const texts: string[] = []
    return { texts, write: (text: string) => void texts.push(text) }
  }
  const whole: Reply = (_req, res) => res.end('a,b\r\n1,Grüße\r\n')
  const broken: Reply = (_req, res) => {
    res.writeHead(200)
    res.write('a,b\r\n', () => res.destroy())
  }
  const { admin, seen } = await scripted(t, reset, whole, broken, refuse(404, 'account_not_found'))
  const first = out()
  await admin.download('x', first)
  t.equal(
    first.texts.join(''),
    'a,b\r\n1,Grüße\r\n',
    'a connection that broke before is tried again',
  )
  const second = out()
  await t.rejects(admin.download('x', second), { exitCode: 69, message: /is not complete/ })
  t.same([second.texts.join(''), seen.length], ['a,b\r\n', 3])
  await t.rejects(admin.download('x', out()), { exitCode: 1, message: /account_not_found/ })
})

t.test('a download waits for an output that is full', async (t) => {
  const { admin } = await scripted(t, (_req, res) => res.end('x'))
  let drain = () => {}
  const written: string[] = []
  const full = {
    write: (text: string) => written.push(text) === 0,
    once: (_event: 'drain', listener: () => void) => void (drain = listener),
  }
  let isOver = false
  const downloading = admin.download('x', full).then(() => (isOver = true))
  await until(() => written.length === 1)
  t.notOk(isOver)
  drain()
  await downloading
})
