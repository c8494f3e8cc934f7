// An answer that the client does not get was still generated: too large, no JSON, or left just before its end.

import t from 'tap'
import type { Test } from 'tap'
import type { Call, Script } from '../fixtures/backend.ts'
import { bytes, pause } from '../fixtures/backend-scripts.ts'
import { chatPath, hi } from '../fixtures/chat-path.ts'
import type { ChatPathOptions } from '../fixtures/chat-path.ts'
import { codeOf } from '../fixtures/gateway.ts'
import { chargesOf } from '../fixtures/money.ts'

const words = (n: number) => 'word '.repeat(n)
const truth = { prompt_tokens: 2, completion_tokens: 4000, total_tokens: 4002 }

function answer(said: object, { usage = truth as object | undefined } = {}): string {
  const choices = [{ index: 0, message: { role: 'assistant', ...said }, finish_reason: 'stop' }]
  return JSON.stringify({ id: 'x', choices, usage })
}

const large = { yaml: 'limits: { answer: 4KiB }' }

async function chargeFor(t: Test, script: Script, options: ChatPathOptions) {
  const path = await chatPath(t, options)
  path.backend.on(script)
  const answered = await path.ask()
  const retry = answered.headers.get('x-should-retry')
  const code = await codeOf(answered)
  await path.spent()
  return { code, retry, charges: await chargesOf(path.gate, path) }
}

t.test('too large for the gateway: charged as reported', async (t) => {
  const script = bytes(answer({ content: words(4000) }))
  const { code, retry, charges } = await chargeFor(t, script, large)
  t.equal(code, 'upstream_error')
  t.equal(retry, 'false', 'it would be charged again')
  t.match(charges, [{ amount: -4002, estimated: false }])
})

t.test('too large and without a report: charged as counted', async (t) => {
  const script = bytes(answer({ content: words(4000) }, { usage: undefined }))
  const { charges } = await chargeFor(t, script, large)
  const amount = -(charges[0]?.amount ?? 0)
  t.ok(amount >= 4000 && amount < 4800, `${amount}`)
})

t.test('far too large: not read to its end', async (t) => {
  const endless: Script = async ({ res }) => {
    res.write(answer({ content: words(100) }).slice(0, 500))
    while (!res.destroyed) {
      res.write(words(1000))
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const { code, charges } = await chargeFor(t, endless, large)
  t.equal(code, 'upstream_error')
  t.ok((charges[0]?.amount ?? 0) < -4000)
})

t.test('an answer that is no JSON is charged for its usage, or costs nothing', async (t) => {
  const broken = answer({ content: words(4000) }).replace('"id"', 'NaN,"id"')
  t.match(await chargeFor(t, bytes(broken), {}), { retry: 'false', charges: [{ amount: -4002 }] })
  const silent = broken.slice(0, broken.indexOf('"usage"'))
  const [counted] = (await chargeFor(t, bytes(silent), {})).charges
  t.ok(-(counted?.amount ?? 0) >= 4000)
  const free = await chargeFor(t, bytes('<html>bad gateway</html>'), {})
  t.match(free, { retry: null, charges: [] })
  t.equal(free.charges.length, 0)
})

const slow: Script = async ({ res }) => {
  await pause(300)
  res.writeHead(200, { 'content-type': 'application/json' })
  res.end(answer({ content: words(4000) }))
}

for (const leaves of [false, true]) {
  const who = leaves ? 'by one who left' : 'by one who waits'
  t.test(`a generation longer than first_token is paid for ${who}`, async (t) => {
    const path = await chatPath(t, { model: 'timeouts: { first_token: 50ms, total: 20s }' })
    path.backend.on(slow)
    const { answer: asked, leave } = path.leaving(hi)
    await path.backend.request(0)
    if (leaves) leave()
    const status = await asked.then(({ status }) => status).catch(() => 'left')
    t.equal(status, leaves ? 'left' : 200)
    t.equal(await path.spent(), 4002)
  })
}

/** Sends half of the text, waits, and then sends the rest. */
function inTwo(text: string, half: PromiseWithResolvers<Call>, rest: Promise<void>): Script {
  return async (call) => {
    call.res.writeHead(200, { 'content-type': 'application/json' })
    call.res.write(text.slice(0, text.length / 2), () => half.resolve(call))
    await rest
    call.res.end(text.slice(text.length / 2))
  }
}

for (const onLeave of [undefined, 'finish', 'abort'] as const) {
  t.test(`left in the middle, with on_leave ${onLeave ?? 'not given'}`, async (t) => {
    const path = await chatPath(t, { model: onLeave ? `on_leave: ${onLeave}` : '' })
    const half = Promise.withResolvers<Call>()
    const rest = Promise.withResolvers<void>()
    path.backend.on(inTwo(answer({ content: words(4000) }), half, rest.promise))
    const { answer: asked, leave } = path.leaving(hi)
    const { res } = await half.promise
    leave()
    await t.rejects(asked)
    if (onLeave === 'abort') await path.backend.requests[0]?.closed
    else t.notOk(res.destroyed, 'the backend goes on')
    rest.resolve()
    const spent = await path.spent()
    if (onLeave === 'abort') t.ok(spent >= 1900 && spent < 2300, `${spent}: what had come`)
    else t.equal(spent, 4002, 'what the backend reports')
  })
}
