// An operator's provider of spans that throws or hangs, and callers' headers of traces that are no such thing: neither may
// cost a request, a restart or a drain.

import { once } from 'node:events'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { send, spawnGateway } from '../fixtures/gateway.ts'
import { until } from '../fixtures/until.ts'

const hi = { model: 'm', messages: [{ role: 'user', content: 'Hi there' }] }

/** A module whose provider has this span processor; what is not named does nothing. */
const withProcessor = (processor: string) => `
import { TracerProvider } from '@opentelemetry/sdk-trace'
const nothing = { onStart() {}, onEnd() {}, async forceFlush() {}, async shutdown() {} }
export const provider = new TracerProvider({ spanProcessors: [{ ...nothing, ${processor} }] })
`

async function traced(t: Test, modules: Readonly<Record<string, string>>) {
  const dir = t.testdir(modules)
  const backend = await startBackend(t)
  const yamlFor = (name: string) =>
    `models: { m: { targets: [{ url: '${backend.url}' }] } }\nlog: { level: info }\nplugins: { traces: { sdk: '${dir}/${name}' } }`
  const gate = await spawnGateway(t, { yaml: yamlFor(Object.keys(modules)[0] ?? '') })
  const { key } = await gate.account(100_000)
  const ask = async (headers = {}) => {
    const answer = await send(`${gate.url}/v1/chat`, { token: key, body: hi, headers })
    await answer.arrayBuffer()
    return answer.status
  }
  const use = (name: string) => gate.rewrite(yamlFor(name))
  return { backend, gate, ask, use }
}

const throwing: Readonly<Record<string, string>> = {
  'a tracer throws': `export const provider = { getTracer: () => ({ startSpan() { throw new Error('ouch') } }) }`,
  'a tracer makes nothing': 'export const provider = { getTracer: () => ({ startSpan() {} }) }',
  'the span of an attempt throws': withProcessor(
    `onStart({ kind }) { if (kind === 2) throw new Error('ouch') }`,
  ),
  'the end of a span throws': withProcessor(`onEnd() { throw new Error('ouch') }`),
}

for (const [name, module] of Object.entries(throwing)) {
  t.test(`${name}: every request is served, and the log says it`, async (t) => {
    const { gate, backend, ask } = await traced(t, { 'sdk.mjs': module })
    t.same([await ask(), await ask()], [200, 200])
    t.equal(backend.requests.length, 2)
    await until(() => gate.log.filter((line) => line.includes('"cost":')).length === 2)
    t.match(gate.log.join('\n'), /"plugin":"traces","msg":"a hook failed"/)
  })
}

const id = '0af7651916cd43dd8448eb211c80319c'
const span = 'b7ad6b7169203331'

/** By the specification of W3C; of version 00 nothing follows the flags. */
const parents: Readonly<Record<string, boolean>> = {
  [`00-${id}-${span}-01`]: true,
  [`01-${id}-${span}-01-more`]: true,
  [`ff-${id}-${span}-01`]: false,
  [`00-${id}-${span}-01-more`]: false,
  [`00-${id}-${span}-01more`]: false,
  [`00-${id}-${span}-01, 00-${id}-${span}-01`]: false,
  [`01-${id}-${span}-01, 01-${id}-${span}-01`]: false,
  [`00-${id.toUpperCase()}-${span}-01`]: false,
  [`00-${'0'.repeat(32)}-${span}-01`]: false,
  [`00-${id}-${'0'.repeat(16)}-01`]: false,
}

t.test('only a sound traceparent is continued, and only a sound tracestate goes on', async (t) => {
  const { backend, ask } = await traced(t, { 'sdk.mjs': withProcessor('') })
  for (const [traceparent, isSound] of Object.entries(parents)) {
    await ask({ traceparent, tracestate: 'shop=1' })
    const got = backend.requests.at(-1)?.headers
    t.match(got?.traceparent, /^00-[\da-f]{32}-[\da-f]{16}-01$/)
    t.equal(`${got?.traceparent}`.includes(id), isSound, traceparent)
    t.equal(got?.tracestate, isSound ? 'shop=1' : undefined)
  }
  for (const tracestate of ['', '???', `a=${'x'.repeat(600)}`]) {
    await ask({ traceparent: `00-${id}-${span}-01`, tracestate })
    t.equal(backend.requests.at(-1)?.headers.tracestate, undefined, 'no empty header')
  }
})

t.test('a provider that makes no spans changes no header and no line', async (t) => {
  const sdk = `import { trace } from '@opentelemetry/api'\nexport const provider = trace.getTracerProvider()`
  const { backend, gate, ask } = await traced(t, { 'sdk.mjs': sdk })
  await ask()
  t.equal(backend.requests[0]?.headers.traceparent, undefined)
  await until(() => gate.log.some((line) => line.includes('"cost":')))
  t.notMatch(gate.log.join('\n'), /trace_id/)
})

t.test('the gateway awaits every provider when it ends, even if one fails', async (t) => {
  const slow = `async shutdown() {
    await new Promise((resolve) => setTimeout(resolve, 100))
    process.stderr.write('the second has sent all\\n')
  }`
  const { gate, use } = await traced(t, {
    'first.mjs': withProcessor(`async shutdown() { throw new Error('no collector') }`),
    'second.mjs': withProcessor(slow),
  })
  await use('second.mjs')
  t.equal((await gate.admin('POST', 'reload')).status, 200)
  t.equal(await gate.stop(), 0)
  const at = (words: string) => gate.log.findIndex((line) => line.includes(words))
  t.ok(at('the second has sent all') !== -1)
  t.ok(at('the second has sent all') < at('"stopped"'), 'before the end')
})

t.test('a provider that never ends keeps the gateway for its time and no longer', async (t) => {
  const endless = `setInterval(() => undefined, 1000)
export const provider = { getTracer: () => ({}), shutdown: () => new Promise(() => undefined) }`
  const { gate } = await traced(t, { 'sdk.mjs': endless })
  const exited = once(gate.child, 'exit')
  gate.child.kill('SIGTERM')
  await gate.said(/"msg":"stopped"/)
  const atMs = performance.now()
  t.same(await exited, [0, null])
  t.ok(performance.now() - atMs < 2000, 'nothing outlives the last line')
})

t.test('a file that does not finish loading is refused, and blocks no restart', async (t) => {
  const { gate, ask, use } = await traced(t, {
    'sdk.mjs': withProcessor(''),
    'hangs.mjs': 'setInterval(() => undefined, 1000)\nawait new Promise(() => undefined)',
  })
  await use('hangs.mjs')
  const answer = await gate.admin('POST', 'reload')
  t.equal(answer.status, 422)
  t.match(await answer.text(), /import of .*hangs\.mjs took more than 10000 ms/)
  t.equal(await ask(), 200)
  t.equal(await gate.stop(), 0)
})
