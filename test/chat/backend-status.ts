// What a client is told for each status of a backend, and that no secret of a target gets out.

import t from 'tap'
import { errorBodyBytes } from '../../src/chat/backend-status.ts'
import { bytes, failing, sse } from '../fixtures/backend-scripts.ts'
import { chatPath } from '../fixtures/chat-path.ts'

t.test('a backend’s refusal of the request passes through, its secrets masked', async (t) => {
  const { backend, ask, spent } = await chatPath(t, { target: 'key: sk-secret-1' })
  for (const status of [400, 404, 413, 422]) {
    const body = { error: { message: 'no: sk-secret-1', code: 12345 }, more: 1 }
    backend.once(failing(status, { body, headers: { 'set-cookie': 'a=b', server: 'x' } }))
    const answer = await ask()
    t.equal(answer.status, status)
    t.equal(await answer.text(), JSON.stringify(body).replace('sk-secret-1', '***'))
    t.equal(answer.headers.get('set-cookie'), null)
    t.equal(answer.headers.get('server'), null)
    t.ok(answer.headers.get('x-request-id'))
  }
  t.equal(await spent(), 0)
})

t.test('every other status is one of our errors', async (t) => {
  const { backend, ask, spent } = await chatPath(t)
  const rows = [
    [401, 502, 'upstream_auth_error'],
    [403, 502, 'upstream_auth_error'],
    [429, 429, 'upstream_rate_limited'],
    [503, 503, 'upstream_unavailable'],
    [529, 503, 'upstream_unavailable'],
    [500, 502, 'upstream_error'],
    [504, 504, 'upstream_timeout'],
    [524, 504, 'upstream_timeout'],
    [402, 502, 'upstream_error'],
    [405, 502, 'upstream_error'],
    [409, 502, 'upstream_error'],
    [302, 502, 'upstream_error'],
    [204, 502, 'upstream_error'],
  ] as const
  for (const [status, ours, code] of rows) {
    for (const stream of [false, true]) {
      backend.once(failing(status, { headers: { 'retry-after': '7', location: '/x' } }))
      const answer = await ask({ model: 'm', messages: [], stream })
      t.equal(answer.status, ours, `${status}`)
      t.match(await answer.json(), { error: { code }, request_id: /^req_/ })
      const isTold = status === 429 || status === 503 || status === 529
      t.equal(answer.headers.get('retry-after'), isTold ? '7' : null)
    }
  }
  t.equal(backend.requests.length, 2 * rows.length, 'no redirect was followed')
  t.equal(await spent(), 0)
})

t.test('the log has what a backend says of its limits, and nothing of the key', async (t) => {
  const { backend, gate, ask, stream } = await chatPath(t, {
    target: 'key: sk-secret-one-abcd',
    model: 'breaker: { failures: 100 }',
  })
  const err = async (answer: Response) => {
    const id = answer.headers.get('x-request-id') ?? ''
    const body = await answer.text()
    t.notMatch(body, /told/)
    const line = gate.log.find((one) => one.includes(id) && one.includes('"msg":"request"')) ?? '{}'
    t.notMatch(line, /abcd|sk-s/)
    return (JSON.parse(line) as { err?: object }).err
  }
  const message = 'told: sk-se***abcd has used 3 of 3\n'
  const cleaned = 'told: *** has used 3 of 3'
  /** Without a stack. */
  const logged = (message: string) => ({ name: 'BackendStatus', message })
  for (const status of [401, 402, 429, 503, 529]) {
    backend.once(failing(status, { body: { error: { message } } }))
    t.same(await err(await ask()), logged(`the backend answered ${status}: ${cleaned}`))
  }
  backend.once(sse([`data: ${JSON.stringify({ error: { message, code: 429 } })}\n\n`]))
  t.same(await err(await stream()), logged(`the backend answered 429: ${cleaned}`))
  backend.once(bytes('', { status: 429 }))
  t.same(await err(await ask()), logged('the backend answered 429'))
  // What they say of these may quote the request.
  for (const status of [403, 405, 409, 422, 500, 502, 504]) {
    backend.once(bytes(`{"detail":"told: ${message.trim()}"}`, { status }))
    t.same(await err(await ask()), logged(`the backend answered ${status}`))
  }
})

t.test('a backend can make clients wait an hour at most, and a second at least', async (t) => {
  const { backend, ask } = await chatPath(t, { model: 'breaker: { failures: 100 }' })
  const rows = [
    ['3600', '3600'],
    ['3601', '3600'],
    ['999999', '3600'],
    ['99999999999', '1'],
    ['0', '1'],
    ['-5', '1'],
    ['Fri, 31 Dec 2027 23:59:59 GMT', '1'],
  ] as const
  for (const [said, told] of rows) {
    for (const status of [429, 503]) {
      backend.once(failing(status, { headers: { 'retry-after': said } }))
      t.equal((await ask()).headers.get('retry-after'), told, `${status}: ${said}`)
    }
  }
})

t.test('an error body that is too large, or no JSON with an error, is never relayed', async (t) => {
  const { backend, ask } = await chatPath(t)
  const large = `{"error":{"message":"${'x'.repeat(errorBodyBytes)}"}}`
  for (const body of ['Traceback: /home/x.py', '{"detail":[]}', '{"error":null}', '', large]) {
    backend.once(bytes(body, { status: 422 }))
    const answer = await ask()
    t.equal(answer.status, 502)
    t.match(await answer.json(), { error: { code: 'upstream_error' } })
  }
})
