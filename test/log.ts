import t from 'tap'
import { createLog } from '../src/log.ts'
import type { LogOptions } from '../src/log.ts'

function open(options: Partial<LogOptions> = {}) {
  const lines: string[] = []
  const write = (line: string) => void lines.push(line)
  const log = createLog({ level: 'info', format: 'json', write, ...options })
  return { log, lines }
}

t.test('a notice is one JSON line with its fields', (t) => {
  const { log, lines } = open()
  log.info({ request_id: 'req_1', status: 200 }, 'request')
  t.equal(lines.length, 1)
  t.match(lines[0], /\n$/)
  t.match(JSON.parse(lines[0] ?? ''), { msg: 'request', request_id: 'req_1', status: 200 })
  t.ok(Math.abs(Number(JSON.parse(lines[0] ?? '').time) - Date.now()) < 60_000)
  t.end()
})

t.test('lines below the level are not written', (t) => {
  for (const [level, count] of [
    ['debug', 4],
    ['info', 3],
    ['warn', 2],
    ['error', 1],
    ['silent', 0],
  ] as const) {
    const { log, lines } = open({ level })
    log.debug({}, 'd')
    log.info({}, 'i')
    log.warn({}, 'w')
    log.error({}, 'e')
    t.equal(lines.length, count, level)
  }
  t.end()
})

t.test('a secret is masked wherever it is, unless it is very short', (t) => {
  const { log, lines } = open({ secrets: ['sk-secret-1', 'abc'] })
  const cause = new Error('sent sk-secret-1 abc')
  log.warn({ err: new Error('sk-secret-1sk-secret-1', { cause }), 'sk-secret-1': 1 }, 'sk-secret-1')
  t.notMatch(lines[0], /sk-secret/)
  t.match(lines[0], /sent \*\*\* abc/)
  t.end()
})

t.test('a secret that is added later is masked from then on, however JSON escapes it', (t) => {
  const { log, lines } = open()
  log.hide('two\n"lines"')
  log.hide('short')
  log.info({ said: 'two\n"lines"' }, 'short')
  t.match(JSON.parse(lines[0] ?? ''), { said: '***', msg: 'short' })
  t.equal(log.masked('"short": two\n"lines", sent'), '"short": ***, sent')
  log.hide('t-hidden')
  t.equal(log.masked('a tab\t-hidden'), 'a tab\t-hidden', 'no part of an escape')
  for (const secret of ['tollgate', 'tollgate-prod-1', 'tollgate-prod']) log.hide(secret)
  t.equal(log.masked('tollgate-prod-1 tollgate'), '*** ***', 'no rest of one that another begins')
  t.end()
})

t.test('an error is logged with its causes, and nothing else that it carries', (t) => {
  const { log, lines } = open()
  const cause = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', request: 'private' })
  log.error({ err: new Error('failed', { cause }) }, 'x')
  log.error({ err: 'thrown text' }, 'y')
  const [first, second] = lines.map((line) => JSON.parse(line))
  t.match(first.err, { name: 'Error', message: 'failed', stack: /log\.ts/ })
  t.match(first.err.cause, { message: 'refused', code: 'ECONNREFUSED' })
  t.match(second.err, { name: 'thrown', message: 'thrown text' })
  t.notMatch(lines.join(), /private/)
  t.end()
})

t.test('when several parts fail to close, each of their errors is logged', async (t) => {
  const { log, lines } = open()
  const closing = new AsyncDisposableStack()
  for (const name of ['a', 'b', 'c']) {
    closing.defer(() => Promise.reject(new Error(`${name} does not close`)))
  }
  await closing.disposeAsync().catch((err: unknown) => log.error({ err }, 'x'))
  for (const name of ['a', 'b', 'c']) t.match(lines[0], `${name} does not close`)
})

t.test("a target's short header values do not change the lines", (t) => {
  const { log, lines } = open({ secrets: ['chat', 'true', 'stream'] })
  log.info({ route: '/v1/chat', stream: true }, 'request')
  t.match(JSON.parse(lines[0] ?? ''), { route: '/v1/chat', stream: true })
  t.end()
})

t.test('pretty is for people: clock, level, message, fields', (t) => {
  const { log, lines } = open({ format: 'pretty', secrets: ['sk-secret-1'] })
  log.warn({ status: 502, list: [1, 2], text: 'sk-secret-1' }, 'it failed')
  t.match(lines, [/^\d\d:\d\d:\d\d warn it failed status=502 list=\[1,2\] text=\*\*\*\n$/])
  // What a backend says must not clear the screen, or look like a line of its own.
  log.info({ finish_reason: '\u001b[2Ja\n\u009b' }, 'm')
  t.match(lines[1], /^\S+ info m finish_reason="\\u001b\[2Ja\\n\\u009b"\n$/)
  t.end()
})

t.test('a line says its worker; lines of other processes go through as they are', async (t) => {
  const lines: string[] = []
  const write = (line: string) => lines.push(line)
  const log = createLog({ level: 'error', format: 'json', write, worker: 2 })
  log.error({ a: 1 }, 'x')
  log.forward('their line\n')
  t.match(JSON.parse(lines[0] ?? ''), { a: 1, worker: 2 })
  t.equal(lines[1], 'their line\n')
})

t.test('what is written and masked can be adjusted', async (t) => {
  const lines: string[] = []
  const write = (line: string) => lines.push(line)
  const log = createLog({ level: 'error', format: 'json', write, secrets: ['first-secret'] })
  log.adjust({ level: 'info', secrets: ['second-secret'] })
  log.info({}, 'first-secret second-secret')
  t.match(lines[0], 'first-secret ***')
  log.adjust({ level: 'info', format: 'pretty' })
  log.info({}, 'second-secret')
  t.match(lines[1], /^\d\d:\d\d:\d\d info second-secret/)
})
