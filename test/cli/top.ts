import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import t from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { endless } from '../fixtures/backend-model.ts'
import { runCli } from '../fixtures/cli.ts'
import { adminToken, startGateway } from '../fixtures/gateway.ts'
import { ask, outputOnly } from '../fixtures/money.ts'

const env = { TOLLGATE_ADMIN_TOKEN: adminToken }

t.test('--once measures what streams, is refused, and where it goes', async (t) => {
  const backend = await startBackend(t, endless({ gapMs: 1 }))
  const gateway = await startGateway(t, {
    yaml: `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
  })
  const { key } = await gateway.account(1_000_000)
  const leaving = new AbortController()
  const messages = [{ role: 'user', content: 'Hi' }]
  const body = { model: 'm', messages, stream: true }
  const stream = await gateway.call('/v1/chat', key, body, leaving.signal)
  const reading = stream.text().catch(() => undefined)
  // Refused again and again, so that some of it is within the second that is measured.
  let isOver = false
  const refusing = (async () => {
    while (!isOver) await (await gateway.call('/v1/chat', 'nobody', body)).text()
  })()
  const words = ['top', '--once', '--admin', gateway.adminUrl]
  const json = await runCli([...words, '--json'], { env })
  const people = await runCli(words, { env })
  isOver = true
  await refusing
  leaving.abort()
  await reading
  const seen = JSON.parse(json.out) as {
    readonly requests_per_second: number
    readonly rejections_per_second: Readonly<Record<string, number>>
  }
  t.match(seen, {
    object: 'top',
    streams: { chat: 1 },
    holds_open: 1,
    redis: { up: true },
    targets: [{ model: 'm', name: '1', state: 'up', open: 1, queue: 0 }],
  })
  t.ok(seen.requests_per_second > 0)
  // After some tries of its address, its further ones are refused for that.
  const codes = /^(invalid_api_key|rate_limit_exceeded)$/
  t.ok(Object.keys(seen.rejections_per_second).length > 0)
  for (const code of Object.keys(seen.rejections_per_second)) t.match(code, codes)
  t.match(people, { code: 0, err: '' })
  t.match(people.out, /^streams {3}chat 1$/m)
  t.match(people.out, /^redis {5}up, /m)
  t.match(people.out, /^refused {3}.*\b(invalid_api_key|rate_limit_exceeded) \S+\/s\b/m)
  t.match(people.out, /^m {6}1 {7}up {11}1 {8}0$/m)
})

t.test('in shadow mode it shows what is waived apart from what is charged', async (t) => {
  const backend = await startBackend(t)
  const { adminUrl, account, call } = await startGateway(t, {
    yaml: `${outputOnly(backend.url)}plugins: { metering: { enforce: false } }`,
  })
  const { key } = await account(0)
  // Asked again and again, so that some of it is within the second that is measured.
  let isOver = false
  const asking = (async () => {
    while (!isOver) await (await call('/v1/chat', key, ask(5, true))).text()
  })()
  const words = ['top', '--once', '--admin', adminUrl]
  const json = await runCli([...words, '--json'], { env })
  const people = await runCli(words, { env })
  isOver = true
  await asking
  const seen = JSON.parse(json.out) as Readonly<Record<string, number>>
  t.equal(seen['charged_per_second'], 0)
  t.ok(Number(seen['waived_per_second']) > 0)
  t.match(people.out, /^tokens\/s .* charged 0 {3}waived [1-9]/m)
})

for (const isTTY of [true, false]) {
  const where = isTTY ? 'a terminal' : 'a file'
  t.test(`without --once it goes on until it is interrupted, on ${where}`, async (t) => {
    const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
    const { adminUrl } = await startGateway(t, { yaml })
    const interrupt = new AbortController()
    const pages: string[] = []
    const onOutput = (text: string) => {
      if (pages.push(text) === 2) interrupt.abort()
    }
    const words = ['top', '--admin', adminUrl]
    const { code } = await runCli(words, { env, signal: interrupt.signal, onOutput, isTTY })
    t.equal(code, 0)
    t.equal(pages.length, 2)
    t.equal(pages[1]?.startsWith('\x1b[H\x1b[J'), isTTY, 'at the same place only on a terminal')
    if (!isTTY) t.notMatch(pages.join(''), /[^\P{Cc}\n]/u)
    t.match(pages[1], /^streams/m)
  })
}

t.test('it goes on when the gateway has restarted', async (t) => {
  const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"
  const first = await startGateway(t, { yaml })
  const { redis, dataDir, adminUrl } = first
  const adminPort = Number(new URL(adminUrl).port)
  const interrupt = new AbortController()
  const waiting = Promise.withResolvers<void>()
  const onError = () => waiting.resolve()
  let pages = 0
  const ends = { first: 2, second: Infinity }
  const onOutput = () => {
    pages++
    if (pages === ends.first) void first.close()
    if (pages === ends.second) interrupt.abort()
  }
  const words = ['top', '--admin', adminUrl]
  const running = runCli(words, { env, signal: interrupt.signal, onOutput, onError })
  await waiting.promise
  ends.second = pages + 2
  await startGateway(t, { yaml, redis, dataDir, adminPort })
  const { code, err } = await running
  t.equal(code, 0)
  t.match(err, /No gateway answers at/)
})

t.test('what it says of a gateway that fails moves no cursor', async (t) => {
  const error = { code: 'unwell', message: 'I am \u009b2J unwell.' }
  let asked = 0
  const { url } = await startBackend(t, ({ req, res }) => {
    if (req.url === '/metrics') return void res.end()
    if (asked++ === 0) return void res.end('{"data":[]}')
    res.writeHead(503).end(JSON.stringify({ error }))
  })
  const interrupt = new AbortController()
  const onError = (text: string) => text.includes('unwell') && interrupt.abort()
  const words = ['top', '--admin', new URL(url).origin]
  const { code, err } = await runCli(words, { env, signal: interrupt.signal, onError })
  t.equal(code, 0)
  t.match(err, /^\S+ \S+Z {3}I am \ufffd2J unwell\. \(unwell\)$/m)
})

t.test('what it shows of a gateway moves no cursor', async (t) => {
  const { url } = await startBackend(t, ({ req, res }) => {
    const isMetrics = req.url === '/metrics'
    res.end(isMetrics ? 'tollgate_streams_open{kind="\u009b31mred"} 1\n' : '{"data":[]}')
  })
  const { code, out } = await runCli(['top', '--once', '--admin', new URL(url).origin], { env })
  t.equal(code, 0)
  t.match(out, /^streams {3}\ufffd31mred 1$/m)
})

t.test('a gateway that hangs is told of while somebody waits', async (t) => {
  const sockets: Socket[] = []
  // As the kernel does for a process that is stopped: connections are taken, nothing is read.
  const hung = createServer({ pauseOnConnect: true }, (socket) => void sockets.push(socket))
  t.teardown(() => {
    hung.close()
    for (const socket of sockets) socket.destroy()
  })
  hung.listen(0, '127.0.0.1')
  await once(hung, 'listening')
  const { port } = hung.address() as AddressInfo
  const words = ['top', '--once', '--admin', `http://127.0.0.1:${port}`]
  const { code, err } = await runCli(words, { env })
  t.equal(code, 69)
  t.match(err, /gives no answer in 3 s: does its process hang\?/)
  t.equal(sockets.length, 4, 'it was asked again')
})

t.test('no gateway has its own exit code', async (t) => {
  t.match(await runCli(['top', '--admin', 'http://127.0.0.1:1'], { env }), { code: 69 })
})
