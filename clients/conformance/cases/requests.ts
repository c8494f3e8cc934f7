// What a request looks like: where it goes, what it carries, where the key does not go.

import { each, key, one } from '../case.ts'
import type { Case } from '../case.ts'
import { chunk, fileObject, messageObject, refuse, sessionObject, session } from '../transcript.ts'
import { list } from './steps.ts'

const models = { json: { object: 'list', data: [{ id: 'demo', object: 'model' }] } }
const answer = { ...chunk(null), object: 'chat.completion', choices: [] }

export const requests: readonly Case[] = [
  one('key and base URL come from the environment', {
    client: null,
    env: { TOLLGATE_API_KEY: key, TOLLGATE_BASE_URL: '{base}' },
    answers: [models],
    steps: [list],
    saw: [{ ok: [{ id: 'demo' }] }],
    sent: [{ method: 'GET', path: '/v1/models', headers: { authorization: `Bearer ${key}` } }],
  }),
  one('what is given wins over the environment', {
    env: { TOLLGATE_API_KEY: 'tg_live_of_the_environment', TOLLGATE_BASE_URL: '{closed}' },
    answers: [models],
    steps: [list],
    sent: [{ path: '/v1/models', headers: { authorization: `Bearer ${key}` } }],
  }),
  one('without a key nothing is sent', {
    client: null,
    env: { TOLLGATE_BASE_URL: '{base}' },
    steps: [list],
    saw: [{ error: { class: 'TollgateError', message: /key/i } }],
    sent: [],
  }),
  one('without a base URL there is no client: a key is sent to nobody by chance', {
    client: null,
    env: { TOLLGATE_API_KEY: key },
    steps: [list],
    saw: [{ error: { class: 'TollgateError', message: /base.?url/i } }],
  }),
  each(
    'a base URL with and without /v1, a slash at its end, a path before it',
    ['', '/', '/v1', '/v1/', '/gate', '/gate/v1', '/gate/v1/'],
    (path) => ({
      client: { base_url: `{base}${path}` },
      answers: [models, { json: sessionObject() }],
      steps: [list, { op: 'sessions.create', params: {} }],
      sent: [
        { path: `${path.startsWith('/gate') ? '/gate' : ''}/v1/models` },
        { path: `${path.startsWith('/gate') ? '/gate' : ''}/api/chat/sessions` },
      ],
    }),
  ),
  one('a request names its client, its type, and what it takes', {
    answers: [{ json: sessionObject() }],
    steps: [{ op: 'sessions.create', params: { title: 'Ünï – 你好' } }],
    sent: [
      {
        method: 'POST',
        json: { title: 'Ünï – 你好' },
        headers: {
          'user-agent': /^tollgate-gateway-[a-z]+\/\d+\.\d+\.\d+/,
          'content-type': /^application\/json/,
          accept: /^application\/json/,
        },
      },
    ],
  }),
  each('an id is one segment of the path', ['a/b', 'a?b#c', '..', 'a b%2f', 'ü'], (id) => ({
    answers: [{ json: sessionObject(id) }],
    steps: [{ op: 'sessions.retrieve', id }],
    check({ sent, steps }) {
      // There is no form of `..` that every proxy leaves as it is, so the client may also refuse it.
      const path = sent[0]?.path
      if (path === undefined ? 'ok' in (steps[0] ?? {}) : !isSegment(path, id)) {
        throw new Error(`asked for ${path}`)
      }
    },
  })),
  each(
    'an empty id is refused before anything is sent',
    [
      { op: 'sessions.retrieve', id: '' },
      { op: 'sessions.delete', id: '' },
      { op: 'messages.cancel', session_id: session, id: '' },
      { op: 'files.delete', id: '' },
      { op: 'models.retrieve', id: '' },
    ],
    (step) => ({ steps: [step], saw: [{ error: { class: 'TollgateError' } }], sent: [] }),
  ),
  one('a chat body goes as it is given', {
    answers: [{ json: answer }],
    steps: [{ op: 'chat.create', body: chatBody() }],
    saw: [{ ok: answer }],
    sent: [{ method: 'POST', path: '/v1/chat/completions', json: chatBody() }],
  }),
  one('a stream is asked for in body and head', {
    answers: [refuse({ status: 400, type: 'invalid_request_error', code: 'invalid_parameter' })],
    steps: [{ op: 'chat.stream', body: chatBody() }],
    sent: [{ json: { ...chatBody(), stream: true }, headers: { accept: /text\/event-stream/ } }],
  }),
  one('a message that is not streamed says so', {
    answers: [{ json: messageObject() }],
    steps: [
      { op: 'messages.send', session_id: session, content: 'Hi', params: { temperature: 0 } },
    ],
    saw: [{ ok: messageObject() }],
    sent: [{ json: { content: 'Hi', stream: false, temperature: 0 } }],
  }),
  one('the proxy of the environment is used', {
    client: { base_url: 'http://gate.test/v1', api_key: key },
    env: {
      HTTP_PROXY: '{base}',
      http_proxy: '{base}',
      NO_PROXY: '',
      no_proxy: '',
      NODE_USE_ENV_PROXY: '1',
    },
    answers: [models],
    steps: [list],
    saw: [{ ok: [{ id: 'demo' }] }],
    sent: [{ path: '/v1/models', proxied: /^gate\.test/ }],
  }),
  each(
    'a redirect is not followed',
    [
      { op: 'models.retrieve', id: 'demo' },
      { op: 'sessions.create', params: {} },
      { op: 'messages.create', session_id: session, content: 'Hi' },
    ],
    (step) => ({
      answers: [{ status: 307, headers: { location: '{other}/v1/elsewhere' } }],
      steps: [step],
      saw: [{ error: { class: 'APIError', status: 307 } }],
      sent: [{ isOther: false }],
    }),
  ),
  one('a download that is sent elsewhere goes there without the key', {
    answers: [
      { status: 302, headers: { location: '{other}/bucket/file?signature=1' } },
      { headers: { 'content-type': 'text/plain', etag: '"e"' }, body: ['hello'] },
    ],
    steps: [{ op: 'files.content', id: 'file_1' }],
    saw: [{ ok: { bytes: 5, sha256: fileObject().sha256, content_type: 'text/plain' } }],
    sent: [
      { path: '/api/files/file_1', headers: { authorization: `Bearer ${key}` } },
      { path: '/bucket/file?signature=1', isOther: true, headers: { authorization: undefined } },
    ],
  }),
  one('a download that is sent in a circle ends', {
    answers: Array.from({ length: 30 }, () => ({
      status: 302,
      headers: { location: '{other}/round' },
    })),
    steps: [{ op: 'files.content', id: 'file_1' }],
    saw: [{ error: { class: 'APIError', status: 302 } }],
    check: ({ sent }) => {
      if (sent.length !== 6) throw new Error(`${sent.length} requests`)
    },
  }),
]

function chatBody() {
  return {
    model: 'demo',
    messages: [{ role: 'user', content: 'Hi' }],
    seed: 9007199254740991,
    unheard_of: { deep: [1, null, 'ü'] },
  }
}

function isSegment(path: string, id: string): boolean {
  const segment = /^\/api\/chat\/sessions\/([^/?#]+)$/.exec(path)?.[1]
  return segment !== undefined && decodeURIComponent(segment) === id
}
