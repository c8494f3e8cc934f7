import type { ServerResponse } from 'node:http'
import t from 'tap'
import { echoSize, readAndAnswer, startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { until } from '../fixtures/until.ts'

const host = 'Host: a\r\n'
const json = `${host}Content-Type: application/json\r\n`

t.test('a bad chunk in a body is refused, and what follows is no request', async (t) => {
  const onRequest = readAndAnswer(echoSize)
  const listener = await startListener(t, onRequest)
  const head = `POST / HTTP/1.1\r\n${json}Transfer-Encoding: chunked\r\n\r\n`
  for (const chunks of [
    'zz\r\n{}\r\n0\r\n\r\n',
    '2\r\n{}x\r\n0\r\n\r\n',
    '-2\r\n{}',
    '2;a=\n\r\n{}\r\n0\r\n\r\n',
  ]) {
    const client = await rawClient(t, listener.port)
    const answer = await client.ask(head, chunks)
    t.equal(answer.json.error?.code, 'malformed_request', JSON.stringify(chunks))
    client.socket.end()
    t.equal(await client.ended(), '')
  }
})

t.test('one connection cannot start exchanges without limit', async (t) => {
  const { promise: hold, resolve: letGo } = Promise.withResolvers<void>()
  let running = 0
  const onRequest = readAndAnswer(async (body, req) => {
    // The answer that is due, and 32 after it.
    if (++running === 33) letGo()
    await hold
    return echoSize(body, req)
  })
  const refusals: string[] = []
  const listener = await startListener(t, onRequest, {
    onRefused: ({ code }) => refusals.push(code),
  })
  const client = await rawClient(t, listener.port)
  client.send(`GET / HTTP/1.1\r\n${host}\r\n`.repeat(200))
  for (let i = 0; i < 33; i++) t.equal((await client.answer()).status, 200)
  const refused = await client.answer()
  t.equal(refused.json.error?.code, 'overloaded')
  t.equal(refused.headers.connection, 'close')
  t.equal(await client.ended(), '')
  t.equal(running, 33)
  t.same(refusals, ['overloaded'], 'what came behind it cost nothing')
})

t.test('one request after another does not count as pipelining', async (t) => {
  const listener = await startListener(t, readAndAnswer(echoSize))
  const client = await rawClient(t, listener.port)
  for (let i = 0; i < 100; i++) {
    t.equal((await client.ask(`GET /${i} HTTP/1.1\r\n${host}\r\n`)).json.url, `/${i}`)
  }
})

t.test('a client may send two at a time for ever', async (t) => {
  const listener = await startListener(t, readAndAnswer(echoSize))
  const client = await rawClient(t, listener.port)
  for (let i = 0; i < 50; i++) {
    t.equal(
      (await client.ask(`GET /a HTTP/1.1\r\n${host}\r\nGET /b HTTP/1.1\r\n${host}\r\n`)).json.url,
      '/a',
    )
    t.equal((await client.answer()).json.url, '/b')
  }
})

for (const hasBegun of [false, true]) {
  const state = hasBegun ? 'has begun' : 'is due'
  const what = `rubbish behind a request whose answer ${state} never becomes part of that answer`
  t.test(what, async (t) => {
    const answers: ServerResponse[] = []
    const listener = await startListener(t, (_req, res) => void answers.push(res))
    const client = await rawClient(t, listener.port)
    let received = ''
    client.socket.on('data', (bytes) => (received += bytes.toString()))
    client.send(`GET / HTTP/1.1\r\n${host}\r\n`)
    await until(() => answers.length === 1)
    const [answer] = answers
    if (hasBegun) {
      answer?.writeHead(200, { 'content-length': 10 }).write('begin')
      await until(() => received.endsWith('begin'))
    }
    const before = received
    client.send('RUBBISH\r\n\r\n')
    await until(() => client.socket.closed)
    answer?.end('other')
    await until(() => answer?.closed === true)
    t.equal(received, before)
  })
}
