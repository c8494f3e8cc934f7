import t from 'tap'
import { GatewayError } from '../../src/errors.ts'
import { createRouter } from '../../src/listeners/router.ts'
import type { Route } from '../../src/exchange.ts'

const route = (method: Route['method'], path: string): Route => ({
  method,
  path,
  access: 'anybody',
  body: 'none',
  begin: () => ({ serve: async () => ({ status: 200, body: path }) }),
})

const router = createRouter([
  route('POST', '/v1/chat'),
  route('GET', '/v1/models'),
  route('GET', '/v1/models/*'),
  route('GET', '/api/chat/sessions'),
  route('POST', '/api/chat/sessions'),
  route('GET', '/api/chat/sessions/:id'),
  route('DELETE', '/api/chat/sessions/:id'),
])

function refusal(method: string, path: string): GatewayError | undefined {
  try {
    router.find(method, path)
    return undefined
  } catch (error) {
    return error instanceof GatewayError ? error : undefined
  }
}

t.test('a route is found by method and path, with its parameters decoded', async (t) => {
  t.equal(router.find('POST', '/v1/chat').route.path, '/v1/chat')
  const { route, params } = router.find('GET', '/api/chat/sessions/sess_1')
  t.equal(route.path, '/api/chat/sessions/:id')
  t.equal(params.id, 'sess_1')
  t.equal(router.find('GET', '/v1/models/org%2Fmodel').params['*'], 'org/model')
  t.equal(router.find('GET', '/v1/models/org/model').params['*'], 'org/model')
})

t.test('/v1/api is /api, with the same route', async (t) => {
  const short = router.find('DELETE', '/api/chat/sessions/a')
  const long = router.find('DELETE', '/v1/api/chat/sessions/a')
  t.equal(long.route, short.route)
  t.same(long.params, short.params)
  t.equal(refusal('GET', '/v1/v1/models')?.code, 'route_not_found')
})

t.test('who asks for a route that is not here is told where chats go', async (t) => {
  const chats = /Base URLs end in \/v1; chats go to POST \/v1\/chat\/completions/
  for (const path of ['/v1/responses', '/v1/v1/chat/completions', '/chat/completions'])
    t.match(refusal('POST', path), { code: 'route_not_found', message: chats }, path)
})

t.test('HEAD is served by GET routes', async (t) => {
  t.equal(router.find('HEAD', '/v1/models').route.method, 'GET')
  t.equal(refusal('HEAD', '/v1/chat')?.code, 'method_not_allowed')
})

t.test('another method is 405 with the allowed ones, OPTIONS too', async (t) => {
  for (const method of ['PUT', 'OPTIONS', 'TRACE', 'get', '__proto__']) {
    const error = refusal(method, '/api/chat/sessions')
    t.equal(error?.code, 'method_not_allowed', method)
    t.equal(error?.headers.Allow, 'GET, HEAD, POST', method)
  }
})

t.test('paths are exact: a similar path is no route', async (t) => {
  for (const path of [
    '/',
    '',
    '*',
    'v1/chat',
    '/v1/chat/',
    '/V1/chat',
    '//v1/chat',
    '/v1//chat',
    '/v1/./chat',
    '/v1/x/../chat',
    '/v1/x/%2e%2e/chat',
    '/%2e%2e/v1/chat',
    '/v1%2Fchat',
    '/v1/chat%',
    '/v1/chat%00',
    '/v1/chat;x',
    '/v1\\chat',
    'http://a/v1/chat',
    '/api/chat/sessions/a/b',
  ]) {
    t.equal(refusal('POST', path)?.code, 'route_not_found', path.slice(0, 40))
    t.equal(refusal('GET', path)?.code, 'route_not_found', path.slice(0, 40))
  }
})

t.test('if CORS answers OPTIONS on all paths, unknown ones stay 404 for others', async (t) => {
  const open = createRouter([route('OPTIONS', '/*'), route('GET', '/v1/models')])
  t.equal(open.find('OPTIONS', '/v1/models').route.path, '/*')
  t.throws(() => open.find('GET', '/nowhere'), { code: 'route_not_found' })
  t.throws(() => open.find('POST', '/v1/models'), { code: 'method_not_allowed' })
})

t.test('the same route twice is refused at set-up, its alias too', async (t) => {
  t.throws(() => createRouter([route('GET', '/a'), route('GET', '/a')]))
  t.throws(() => createRouter([route('GET', '/api/a'), route('GET', '/v1/api/a')]))
})

t.test("a route of an operator's plugin without `begin` is refused at set-up", async (t) => {
  const { begin, ...old } = route('GET', '/a')
  t.throws(() => createRouter([{ ...old, serve: begin } as unknown as Route]), {
    message: 'The route GET /a has no function "begin".',
  })
})

t.test('a route that reads JSON and names no limit for it is refused at set-up', async (t) => {
  const reader: Route = { ...route('POST', '/a'), body: 'json' }
  t.throws(() => createRouter([reader]), {
    message: 'The route POST /a reads a body of JSON and has no "maxBytes".',
  })
  createRouter([{ ...reader, maxBytes: 1 }])
})

t.test('an id of any length is for its resource to know or not', async (t) => {
  const id = 'x'.repeat(16_000)
  t.same(router.find('GET', `/api/chat/sessions/${id}`).params, { id })
})

t.test('a path without parameters is no value of a parameter, whatever the method', async (t) => {
  const files = { ...route('GET', '/api/files/:id') }
  const upload = route('POST', '/api/files/upload')
  const preflight = route('OPTIONS', '/*')
  const { find } = createRouter([files, upload, preflight])
  for (const mount of ['', '/v1']) {
    t.equal(find('POST', `${mount}/api/files/upload`).route, upload)
    t.equal(find('OPTIONS', `${mount}/api/files/upload`).route, preflight)
    t.equal(find('GET', `${mount}/api/files/file_1`).route, files)
    t.throws(() => find('GET', `${mount}/api/files/upload`), {
      code: 'method_not_allowed',
      headers: { Allow: 'POST' },
    })
    t.throws(() => find('HEAD', `${mount}/api/files/upload`), { code: 'method_not_allowed' })
  }
})
