// Which failures another target is asked after, and which the client gets; what each attempt leaves in the log and the
// metrics; what is paid, and when nobody waits any more.

import { once } from 'node:events'
import { createServer } from 'node:net'
import type { Socket } from 'node:net'
import { mock } from 'node:test'
import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { Script } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import {
  behind,
  bytes,
  failing,
  json,
  longLine,
  raw,
  reset,
  silent,
  sse,
} from '../fixtures/backend-scripts.ts'
import { freePort } from '../fixtures/free-port.ts'
import { Gate } from '../fixtures/gate.ts'
import { codeOf } from '../fixtures/gateway.ts'
import { handClock } from '../fixtures/hand-clock.ts'
import { spy } from '../fixtures/spy.ts'
import { soon, until } from '../fixtures/until.ts'
import { listenOn } from '../fixtures/listen.ts'
import { hello, targetsPath } from '../fixtures/targets-path.ts'
import { withoutFiles } from '../fixtures/without-files.ts'
import type { Exchange } from '../../src/exchange.ts'

const role = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
const word = 'data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n'
const errorEvent = (code: unknown) =>
  `data: ${JSON.stringify({ error: { message: 'x', code } })}\n\n`
const http = (status: string) => raw(`HTTP/1.1 ${status}\r\nContent-Length: 0\r\n\r\n`)

/** Only the beginning of its body comes. */
const unended =
  (status: number): Script =>
  ({ res }) => {
    res.writeHead(status, { 'content-type': 'application/json', 'content-length': '100' })
    res.write('{')
  }

/** What another target is asked after: for a stream, and for a whole answer. */
const forAnother: Readonly<Record<string, readonly [Script, string]>> = {
  '429': [failing(429), 'upstream_rate_limited'],
  '503': [failing(503), 'upstream_unavailable'],
  '503, and a body without an end': [unended(503), 'upstream_unavailable'],
  '529': [failing(529), 'upstream_unavailable'],
  '500': [failing(500), 'upstream_error'],
  '502 without a body': [http('502 Bad Gateway'), 'upstream_error'],
  'a reset': [reset, 'upstream_error'],
  'no HTTP': [raw('what?'), 'upstream_error'],
}

const streamsForAnother: typeof forAnother = {
  'an error event': [sse([role, errorEvent('oom')]), 'upstream_error'],
  'an error event that says 429': [sse([errorEvent(429)]), 'upstream_rate_limited'],
  'a stream that ends after its role': [sse([role]), 'upstream_incomplete'],
  'a stream that is cut after its role': [sse([role], { end: 'cut' }), 'upstream_incomplete'],
  '[DONE] at once': [sse(['data: [DONE]\n\n']), 'upstream_incomplete'],
  'a line without content that is too long': [longLine(9 * 2 ** 20), 'upstream_error'],
}

const wholesForAnother: typeof forAnother = {
  'an error in a 200': [json({ error: { message: 'x' } }), 'upstream_error'],
  'no JSON': [bytes('<html>'), 'upstream_error'],
  'a cut': [
    raw('HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"choices":[', { reset: true }),
    'upstream_incomplete',
  ],
}

type Row = readonly [name: string, stream: boolean, script: Script, code: string]

const rows: readonly Row[] = [
  ...[true, false].flatMap((stream) => listed(forAnother, stream)),
  ...listed(streamsForAnother, true),
  ...listed(wholesForAnother, false),
]

function listed(table: typeof forAnother, stream: boolean): Row[] {
  return Object.entries(table).map(([name, [script, code]]) => [name, stream, script, code])
}

for (const [name, stream, script, code] of rows) {
  t.test(`after ${name}, another target answers (stream: ${stream})`, async (t) => {
    const { backends, ask, spent, line, metrics } = await targetsPath(t)
    backends[0]?.on(script)
    const answer = await ask({ ...hello, stream })
    t.equal(answer.status, 200)
    const text = await answer.text()
    t.match(text, /w0 /)
    t.notMatch(text, /error/)
    const { prompt = 0, completion = 0 } = backends[1]?.served ?? {}
    t.equal(await spent(), prompt + completion, 'one answer is paid')
    const said = await line()
    t.match(said.attempts, [
      { target: '1', outcome: code, ms: Number },
      { target: '2', outcome: 'complete', ms: Number },
    ])
    const text2 = await metrics()
    for (const [target, outcome] of [
      ['1', code === 'upstream_rate_limited' ? 'rate_limited' : 'failed'],
      ['2', 'complete'],
    ]) {
      const metric = `upstream_requests_total{model="m",target="${target}",outcome="${outcome}"} 1`
      t.ok(text2.includes(metric), metric)
    }
  })

  t.test(`after ${name} of all targets, the last one decides (stream: ${stream})`, async (t) => {
    const { backends, ask, spent, asked, line } = await targetsPath(t)
    backends[0]?.on(failing(529))
    backends[1]?.on(script)
    const answer = await ask({ ...hello, stream })
    t.equal(await codeOf(answer), code)
    t.equal(await spent(), 0)
    t.strictSame(asked(), [1, 1])
    t.match((await line()).attempts, [{ outcome: 'upstream_unavailable' }, { outcome: code }])
  })
}

t.test(
  'the line of a request says why a target that was asked before has refused it',
  async (t) => {
    const { backends, ask, line } = await targetsPath(t)
    backends[0]?.on(failing(429, { body: { error: 'Limit 3, used 3' } }))
    t.equal((await ask()).status, 200)
    const { attempts = [] } = await line()
    t.match(attempts, [
      { target: '1', outcome: 'upstream_rate_limited', said: 'Limit 3, used 3' },
      { target: '2', outcome: 'complete' },
    ])
    t.notOk('said' in (attempts[1] ?? {}))
  },
)

t.test('a target that is not reached costs its connect time-out at most', async (t) => {
  const port = await freePort()
  for (const url of [`http://127.0.0.1:${port}/v1`, 'http://nowhere.invalid/v1']) {
    const { ask, line } = await targetsPath(t, { urls: [url] })
    t.equal((await ask()).status, 200)
    t.match((await line()).attempts, [{ outcome: 'upstream_unavailable' }, { target: '2' }])
  }
})

t.test('that this process has no descriptor left is no fault of a target', async (t) => {
  const { ask, line, metrics, states } = await targetsPath(t, {
    urls: ['http://unopened.test/v1'],
    model: 'breaker: { failures: 1 }',
  })
  const files = withoutFiles(t)
  t.equal((await ask()).status, 200, 'a connection to the other one may be there')
  files.end()
  t.match((await line()).attempts, [{ outcome: 'overloaded' }, { outcome: 'complete' }])
  t.strictSame(await states(), ['up', 'up'])
  const text = await metrics()
  t.match(text, 'upstream_requests_total{model="m",target="1",outcome="aborted"} 1')
  t.notMatch(text, /outcome="failed"/)
})

const theirs = { error: { message: 'no', code: 'theirs' } }

/** What the client gets at once, because another target would say the same, or the operator has to know of it. */
const final: readonly (readonly [name: string, script: Script, code: string])[] = [
  ...[400, 404, 413, 422].map((s) => [`${s}`, failing(s, { body: theirs }), 'theirs'] as const),
  ['401', failing(401), 'upstream_auth_error'],
  ['403', failing(403), 'upstream_auth_error'],
  ['402', failing(402), 'upstream_error'],
  ['409', failing(409), 'upstream_error'],
  ['302', failing(302, { headers: { location: '/x' } }), 'upstream_error'],
  ['400 that is no error', bytes('Traceback', { status: 400 }), 'upstream_error'],
  ['504', failing(504), 'upstream_timeout'],
]

for (const [name, script, code] of final) {
  t.test(`after ${name} no other target is asked`, async (t) => {
    const { backends, ask, spent, asked, line } = await targetsPath(t)
    backends[0]?.on(script)
    for (const stream of [true, false]) {
      t.equal(await codeOf(await ask({ ...hello, stream })), code)
    }
    backends[0]?.on(sse([errorEvent(400)]))
    t.equal((await ask({ ...hello, stream: true })).status, 400, 'nor after such an event')
    t.equal(await spent(), 0)
    t.strictSame(asked(), [3, 0])
    t.equal((await line()).attempts, undefined)
  })
}

t.test('after content no other target is asked, and the content is paid', async (t) => {
  const { backends, stream, spent, asked } = await targetsPath(t)
  backends[0]?.on(sse([role, word, word], { end: 'cut' }))
  t.match(await (await stream()).text(), /upstream_incomplete/)
  t.ok((await spent()) > 0)
  t.strictSame(asked(), [1, 0])
})

t.test('after an answer that is charged no other target is asked', async (t) => {
  const { backends, ask, spent, asked } = await targetsPath(t, { yaml: 'limits: { answer: 1KiB }' })
  const content = 'a '.repeat(2000)
  const usage = { prompt_tokens: 1, completion_tokens: 2000 }
  backends[0]?.on(json({ choices: [{ index: 0, message: { content } }], usage }))
  const answer = await ask()
  t.equal(await codeOf(answer), 'upstream_error')
  t.equal(answer.headers.get('x-should-retry'), 'false')
  t.ok((await spent()) > 0)
  t.strictSame(asked(), [1, 0])
})

t.test('a time-out is final, unless the model says otherwise', async (t) => {
  for (const retry of [false, true]) {
    const { backends, stream, spent, asked, line } = await targetsPath(t, {
      count: 3,
      model: `timeouts: { first_token: 150ms, total: 5s }, retry_on_timeout: ${retry}`,
    })
    const roleSent = Promise.withResolvers<void>()
    backends[0]?.on(silent)
    backends[1]?.on(({ res }) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write(role, () => roleSent.resolve())
    })
    mock.timers.enable({ apis: ['setTimeout'] })
    t.teardown(() => mock.timers.reset())
    const asking = stream()
    await backends[0]?.request(0)
    mock.timers.tick(150)
    await Promise.race([asking, roleSent.promise])
    // The gateway reads the role before its time is over.
    for (let i = 0; i < 3; i++) await nextTurn()
    mock.timers.tick(150)
    const answer = await asking
    t.equal(answer.status, retry ? 200 : 504)
    const text = await answer.text()
    mock.timers.reset()
    t.match(text, retry ? /w0 .*\[DONE\]/s : /upstream_timeout/)
    t.strictSame(asked(), retry ? [1, 1, 1] : [1, 0, 0])
    t.equal((await spent()) > 0, retry)
    for (const { closed } of backends[0]?.requests ?? []) t.ok(await soon(closed))
    if (retry) {
      const timeout = { outcome: 'upstream_timeout' }
      t.match((await line()).attempts, [timeout, timeout, { target: '3', outcome: 'complete' }])
    }
  }
})

t.test('the whole time is one for all targets', async (t) => {
  const { backends, stream, asked } = await targetsPath(t, {
    model: 'timeouts: { first_token: 10s, total: 200ms }, retry_on_timeout: true',
  })
  for (const backend of backends) backend.on(silent)
  t.equal(await codeOf(await stream()), 'upstream_timeout')
  t.strictSame(asked(), [1, 0])
})

t.test('once 200 went out, no other target is asked', async (t) => {
  const { backends, stream, asked, spent } = await targetsPath(t, {
    yaml: 'limits: { first_byte: 50ms, heartbeat: 20ms }',
    model: 'retry_on_timeout: true, timeouts: { first_token: 5s }',
  })
  const gate = new Gate()
  backends[0]?.on(behind(gate, failing(503)))
  const answer = await stream()
  t.equal(answer.status, 200)
  gate.open()
  t.match(await answer.text(), /upstream_unavailable/)
  t.strictSame(asked(), [1, 0])
  t.equal(await spent(), 0)
})

t.test('where the client has left, no other target is asked', async (t) => {
  for (const stream of [true, false]) {
    const seen: Exchange[] = []
    const plugin = spy((x) => void (x.route.metered && seen.push(x)))
    const { backends, leaving, spent, asked, line } = await targetsPath(t, {
      ownPlugins: [plugin],
    })
    const gate = new Gate()
    backends[0]?.on(behind(gate, failing(503)))
    const { leave } = leaving({ ...hello, stream })
    await backends[0]?.request(0)
    leave()
    await until(() => seen[0]?.left.aborted === true)
    gate.open()
    t.equal((await line()).status, 499)
    t.ok((await spent()) > 0, 'the prompt is paid, as with one target')
    t.strictSame(asked(), [1, 0])
  }
})

t.test('a ledger that stops a request stops it between two targets as well', async (t) => {
  const seen: Exchange[] = []
  const plugin = spy((x) => {
    if (!x.route.metered) return undefined
    seen.push(x)
    // Runs when each target is asked: the second one never is.
    let attempts = 0
    return {
      upstream: () => {
        if (attempts++ === 1) x.stop?.('account_suspended')
      },
    }
  })
  const { backends, stream, asked, spent } = await targetsPath(t, { ownPlugins: [plugin] })
  backends[0]?.on(failing(503))
  t.equal(await codeOf(await stream()), 'account_suspended')
  t.strictSame(asked(), [1, 0])
  t.equal(await spent(), 0)
})

t.test('each target gets a request of its own, with its own model and key', async (t) => {
  const plugin = spy((x) => {
    if (!x.route.metered) return undefined
    return {
      upstream(request) {
        request.headers['x-seen'] = `${request.headers['x-seen'] ?? ''}once`
      },
    }
  })
  const { backends, ask } = await targetsPath(t, {
    keys: (i) => `priority: ${i + 1}, model: theirs-${i}, key: sk-${i}`,
    ownPlugins: [plugin],
  })
  backends[0]?.on(failing(500))
  await (await ask()).text()
  for (const [i, { requests }] of backends.entries()) {
    const sent = requests[0]
    t.match(sent?.headers, { authorization: `Bearer sk-${i}`, 'x-seen': 'once' })
    t.match(JSON.parse(sent?.body.toString() ?? ''), { model: `theirs-${i}` })
  }
})

t.test('a large body reaches another target whole, if one did not read it', async (t) => {
  // Answers before it has read anything, and never reads.
  const busy = 'HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\n{}'
  const unread: Socket[] = []
  const early = createServer((socket) => {
    unread.push(socket)
    socket.write(busy)
    socket.pause()
  })
  const { url } = await listenOn(t, early)
  const { backends, ask, spent } = await targetsPath(t, {
    urls: [url],
    yaml: 'plans: { default: { tokens_per_minute: 1000000000 } }',
    tokens: 100_000_000,
  })
  const content = 'word '.repeat(4_000_000)
  for (const stream of [true, false]) {
    const answer = await ask({ ...hello, stream, messages: [{ role: 'user', content }] })
    t.equal(answer.status, 200)
    await answer.text()
  }
  const bodies = backends[1]?.requests.map(({ body }) => body.toString()) ?? []
  t.equal(bodies.length, 2)
  for (const body of bodies) {
    const sent = JSON.parse(body) as { messages: { content: string }[] }
    t.ok(sent.messages[0]?.content === content)
  }
  t.ok((await spent()) > 0)
  for (const socket of unread) {
    socket.resume()
    await soon(once(socket, 'close').catch(() => undefined))
    t.ok(socket.bytesRead < content.length, 'nobody reads what was still to be sent')
  }
})

t.test('a first token is measured from the request that brought it', async (t) => {
  const { backends, stream, line } = await targetsPath(t, {
    model: 'timeouts: { first_token: 300ms }, retry_on_timeout: true',
  })
  backends[0]?.on(silent)
  backends[1]?.on(chat({ chunks: 2 }))
  const { pass } = handClock(t, 'setTimeout')
  const answer = stream()
  await backends[0]?.request(0)
  pass(300)
  await (await answer).text()
  mock.timers.reset()
  t.match(await line(), { ms: 300, first_token_ms: 0, overhead_ms: 0 })
})

t.test('requests of many clients fail over at once, each to its own answer', async (t) => {
  const { backends, ask, spent } = await targetsPath(t, {
    count: 3,
    yaml: 'plans: { default: { concurrency: 100 } }',
  })
  backends[0]?.on(failing(500))
  backends[1]?.on(reset)
  const answers = await Promise.all(
    Array.from({ length: 60 }, (_, i) => ask({ ...hello, stream: i % 2 === 0 })),
  )
  for (const answer of answers) {
    t.equal(answer.status, 200)
    await answer.text()
  }
  const { prompt = 0, completion = 0 } = backends[2]?.served ?? {}
  t.equal(await spent(), prompt + completion)
  t.equal(backends[2]?.requests.length, 60)
})
