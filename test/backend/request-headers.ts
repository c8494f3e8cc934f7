// Which headers may go to a backend, depending on who has set them.

import t from 'tap'
import { clientHeaders, ownHeaders, requestHeaders } from '../../src/backend/request-headers.ts'
import { modelOf, targetOf } from '../fixtures/target.ts'

const none = modelOf([])

t.test('four headers of a client are sent, and those that the model lists', async (t) => {
  const headers = {
    'content-type': 'application/json',
    accept: '*/*',
    traceparent: '00-a-b-01',
    tracestate: 'x=1',
    'user-agent': 'sdk',
    'x-conversation-id': '1',
    'x-listed': 'yes',
  }
  const { 'user-agent': _, 'x-conversation-id': __, 'x-listed': listed, ...four } = headers
  t.strictSame(clientHeaders(none, headers), four)
  const model = modelOf([], { forwardHeaders: ['X-Listed', 'x-absent'] })
  t.strictSame(clientHeaders(model, headers), { ...four, 'x-listed': listed })
})

t.test('a credential is not forwarded even if a model lists it', async (t) => {
  const listed = ['authorization', 'Cookie', 'host', 'x-forwarded-for']
  const model = modelOf([], { forwardHeaders: listed })
  const headers = { authorization: 'Bearer x', cookie: 'a', host: 'b', 'x-forwarded-for': 'c' }
  t.strictSame(clientHeaders(model, headers), {})
})

t.test('an operator may set any header but those of the framing', async (t) => {
  const target = targetOf('http://x.test:81/v1', {
    headers: {
      Host: 'vhost',
      'Transfer-Encoding': 'chunked',
      'X-A': '1',
      Authorization: 'Basic x',
    },
  })
  t.strictSame(ownHeaders(target, new URL(target.url)), {
    host: 'vhost',
    'accept-encoding': 'identity',
    'x-a': '1',
    authorization: 'Basic x',
  })
})

t.test('the headers of a target replace those of a request', async (t) => {
  const request = {
    path: '/',
    headers: { 'X-A': 'theirs', 'x-b': 'kept' },
    body: ['é', '1'].map((piece) => Buffer.from(piece)),
  }
  t.strictSame(requestHeaders(request, { 'x-a': 'ours' }), {
    'x-a': 'ours',
    'x-b': 'kept',
    'content-length': '3',
  })
})
