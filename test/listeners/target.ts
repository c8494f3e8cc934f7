import t from 'tap'
import { readAndAnswer, startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { parseTarget } from '../../src/listeners/target.ts'

t.test('path and query arrive as they were sent, in every form', async (t) => {
  const listener = await startListener(
    t,
    readAndAnswer((_body, req) => {
      const { path, query } = parseTarget(req)
      return { status: 200, body: JSON.stringify({ path, query: [...query] }) }
    }),
  )
  const ask = async (target: string) => {
    const client = await rawClient(t, listener.port)
    const { json } = await client.ask(`GET ${target} HTTP/1.1\r\nHost: a.example:80\r\n\r\n`)
    return json.error?.code ?? [json.path, json.query]
  }
  t.same(await ask('/v1/chat'), ['/v1/chat', []])
  t.same(await ask('/v1/chat?'), ['/v1/chat', []])
  t.same(await ask('/a%2Fb/../c?x=1&x=%20?'), [
    '/a%2Fb/../c',
    [
      ['x', '1'],
      ['x', ' ?'],
    ],
  ])
  t.same(await ask('//evil/v1'), ['//evil/v1', []])
  t.same(await ask('http://A.example:80/v1/chat?x=1'), ['/v1/chat', [['x', '1']]])
  t.same(await ask('https://a.example:80'), ['/', []])
  t.same(await ask('https://a.example:80?x=1'), ['/', [['x', '1']]])
  t.equal(await ask('http://b.example/v1/chat'), 'malformed_request', 'not the Host')
  t.equal(await ask('ftp://a.example:80/'), 'malformed_request')
  t.equal(await ask('/a#b'), 'malformed_request')
})

t.test('OPTIONS * has a path that no route has', async (t) => {
  const listener = await startListener(
    t,
    readAndAnswer((_body, req) => ({ status: 200, body: parseTarget(req).path })),
  )
  const client = await rawClient(t, listener.port)
  client.send('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n')
  const { socket } = client
  t.match(await client.text('*'), /\r\n\r\n\*$/)
  socket.end()
})
