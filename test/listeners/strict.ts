import t from 'tap'
import { echoSize, readAndAnswer, startListener } from '../fixtures/http-listener.ts'
import { rawClient } from '../fixtures/raw-http.ts'

const host = 'Host: a\r\n'
const json = `${host}Content-Type: application/json\r\n`

t.test('a request that two servers could read in two ways is 400 and closed', async (t) => {
  const served: string[] = []
  const listener = await startListener(
    t,
    readAndAnswer((body, req) => {
      served.push(String(req.url))
      return echoSize(body, req)
    }),
  )
  const smuggled = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n'
  const variants: Record<string, string> = {
    'length and chunked': `POST / HTTP/1.1\r\n${json}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${smuggled}`,
    'chunked and length': `POST / HTTP/1.1\r\n${json}Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n${smuggled}`,
    'two lengths': `POST / HTTP/1.1\r\n${json}Content-Length: 2\r\nContent-Length: 60\r\n\r\n{}${smuggled}`,
    'two equal lengths': `POST / HTTP/1.1\r\n${json}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
    'a list of lengths': `POST / HTTP/1.1\r\n${json}Content-Length: 2, 2\r\n\r\n{}`,
    'a signed length': `POST / HTTP/1.1\r\n${json}Content-Length: +2\r\n\r\n{}`,
    'a hexadecimal length': `POST / HTTP/1.1\r\n${json}Content-Length: 0x2\r\n\r\n{}`,
    'chunked not last': `POST / HTTP/1.1\r\n${json}Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n`,
    'gzip before chunked': `POST / HTTP/1.1\r\n${json}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`,
    'chunked twice': `POST / HTTP/1.1\r\n${json}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'identity coding': `POST / HTTP/1.1\r\n${json}Transfer-Encoding: identity\r\n\r\n`,
    'unknown coding': `POST / HTTP/1.1\r\n${json}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n`,
    'chunked with a form feed': `POST / HTTP/1.1\r\n${json}Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n`,
    'chunked in HTTP/1.0': `POST / HTTP/1.0\r\n${json}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
    'space before the colon': `POST / HTTP/1.1\r\n${json}Content-Length : 2\r\n\r\n{}`,
    'obsolete folding': `GET / HTTP/1.1\r\n${host}X-A: b\r\n c\r\n\r\n`,
    'folding that hides a length': `POST / HTTP/1.1\r\n${json}X-A: b\r\n Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}`,
    'a bare line feed': `GET / HTTP/1.1\nHost: a\n\n`,
    'a bare carriage return': `GET / HTTP/1.1\r\n${host}X-A: b\rX-B: c\r\n\r\n`,
    'NUL in a value': `GET / HTTP/1.1\r\n${host}X-A: b\0c\r\n\r\n`,
    'no Host': 'GET / HTTP/1.1\r\nX-A: b\r\n\r\n',
    'two Hosts': `GET / HTTP/1.1\r\n${host}hOST: b\r\n\r\n`,
    'HTTP/2.0 in text': `GET / HTTP/2.0\r\n${host}\r\n`,
    'HTTP/0.9': 'GET /\r\n\r\n',
    'an unknown method': `BREW / HTTP/1.1\r\n${host}\r\n`,
    'no HTTP at all': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello\r\n\r\n',
    'a space in the target': `GET /a b HTTP/1.1\r\n${host}\r\n`,
    'an unknown Expect': `POST / HTTP/1.1\r\n${json}Content-Length: 2\r\nExpect: 200-maybe\r\n\r\n{}`,
    'a tunnel': 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n',
  }
  for (const [name, bytes] of Object.entries(variants)) {
    const client = await rawClient(t, listener.port)
    const answer = await client.ask(Buffer.from(bytes, 'latin1'))
    t.equal(answer.json.error?.code, 'malformed_request', name)
    t.equal(answer.status, 400, name)
    t.equal(answer.headers.connection, 'close', name)
    t.equal(answer.headers['cache-control'], 'no-store', name)
    t.match(answer.headers['x-request-id'], /^req_[0-9a-f]{32}$/, name)
    t.equal(answer.json.request_id, answer.headers['x-request-id'], name)
    client.socket.end()
    t.equal(await client.ended(), '', `${name}: one answer, then the end`)
  }
  t.same(served, [], 'nothing of it reached a handler')
})
