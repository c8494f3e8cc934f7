// Long answers of a real llama.cpp server with one slot, through two gateway processes: cancelled at the other gateway,
// left by their readers, resumed at the other one. The slot is free at once, and what was generated is paid.

import t from 'tap'
import type { Test } from 'tap'
import type { Transaction } from '../../src/ledger/transaction.ts'
import { price, saidIn, startReal } from '../fixtures/real-sessions.ts'
import type { Message, Read } from '../fixtures/real-sessions.ts'
import { eventually, until } from '../fixtures/until.ts'

t.setTimeout(300_000)

const real = await startReal(t, 32_768)
const { one, two } = real

/** Takes some ten seconds if nobody stops it. */
const endless = { max_tokens: 30_000, ignore_eos: true }
const question = 'The client may leave at any time.'

/** The slot is free because the server was stopped, not because it had generated everything. */
async function stopped(test: Test): Promise<void> {
  await until(async () => !(await real.slot()).is_processing)
  const tokens = await generated()
  test.ok(tokens < endless.max_tokens, `stopped after ${tokens} tokens`)
}

/** The number of tokens that the server has generated for the last request. */
async function generated(): Promise<number> {
  const { n_prompt_tokens: all, prompt } = await real.slot()
  return all - (await real.tokensOf(prompt))
}

/** The stored message is what the reader read, and it is paid by the gateway's count, since the server could not report. */
async function paidAsGenerated(test: Test, message: Message, read: Read): Promise<void> {
  const { text, pieces } = saidIn(read)
  test.match(message, { status: 'cancelled', error: null, usage: { estimated: true } })
  test.equal(message.content, text, 'the text is the deltas together')
  const { prompt_tokens = 0, completion_tokens = 0 } = message.usage ?? {}
  const onServer = await generated()
  test.ok(completion_tokens >= pieces * 0.8, `${completion_tokens} tokens for ${pieces} pieces`)
  test.ok(completion_tokens <= onServer * 1.2, `the server says ${onServer}`)
  test.equal(message.cost, prompt_tokens * price.input + completion_tokens * price.output)
  const found = await eventually(() => chargeOf(message))
  test.match(found, { amount: -(message.cost ?? 0), estimated: true })
  test.comment(`${pieces} pieces read, ${onServer} generated, ${completion_tokens} charged`)
}

async function chargeOf({ id }: Message): Promise<Transaction | undefined> {
  const path = '/api/billing/transactions'
  const { data } = await real.json<{ data: readonly Transaction[] }>(two, path)
  return data.find(({ message_id }) => message_id === id)
}

async function waitingIn(session: string): Promise<string> {
  interface Session {
    readonly active_message_id: string | null
  }
  const path = `/api/chat/sessions/${session}`
  return await eventually(
    async () => (await real.json<Session>(two, path)).active_message_id ?? undefined,
  )
}

/** The message that the session is generating, as soon as it has some text. */
async function activeIn(session: string): Promise<string> {
  const id = await waitingIn(session)
  await until(async () => ((await real.message(two, session, id)).content ?? '').length > 2000)
  return id
}

t.test('cancelled on the other gateway: the answer says so, and the slot is free', async (t) => {
  const session = await real.create(one, {})
  const reading = real.read(one, real.path(session), { body: { content: question, ...endless } })
  const id = await activeIn(session)
  const cancelled = await real.json<Message>(two, real.path(session, id, 'cancel'), {})
  await stopped(t)
  const read = await reading
  const { kind, data } = read.frames.at(-1) ?? {}
  t.equal(kind, 'error')
  t.match(data, /"code":"message_cancelled"/)
  await paidAsGenerated(t, cancelled, read)
  t.same(await real.json<Message>(one, real.path(session, id, 'cancel'), {}), cancelled, 'again')
  const body = { content: 'We count.', max_tokens: 1 }
  const next = await real.read(two, real.path(session), { body })
  t.equal(next.frames.at(-1)?.kind, 'done', 'the session and the slot go on')
  const { prompt } = await real.slot()
  t.ok(prompt.includes(cancelled.content ?? '?'), 'from what was said')
})

t.test('cancelled while it waits for the slot: the server never begins', async (t) => {
  const busy = await real.create(one, {})
  const before = real.read(one, real.path(busy), { body: { content: question, ...endless } })
  const running = await activeIn(busy)
  const session = await real.create(one, {})
  const reading = real.read(one, real.path(session), { body: { content: question } })
  const id = await waitingIn(session)
  const cancelled = await real.json<Message>(two, real.path(session, id, 'cancel'), {})
  t.match(cancelled, { status: 'cancelled', content: null, usage: { completion_tokens: 0 } })
  t.equal((await real.slot()).is_processing, true, 'the other one goes on')
  await real.json<Message>(one, real.path(busy, running, 'cancel'), {})
  await before
  t.equal((await reading).frames.length, 1, 'its reader is told, and nothing else')
})

t.test('with on_disconnect: cancel the reader who leaves stops the server', async (t) => {
  const session = await real.create(one, {})
  const body = { content: question, ...endless, on_disconnect: 'cancel' }
  const read = await real.read(one, real.path(session), { body, cutAfter: 100_000 })
  await stopped(t)
  const message = await finished(session, read.message)
  t.equal(message.status, 'cancelled')
  t.ok(message.content?.startsWith(saidIn(read).text))
})

t.test('read here, then there, then here again: together what was sent', async (t) => {
  const session = await real.create(one, {})
  const asked = 2000
  const body = { content: question, max_tokens: asked, ignore_eos: true }
  const first = await real.read(one, real.path(session), { body, cutAfter: 60_000 })
  const { message: id } = first
  const on = async (gateway: typeof one, after: Read, cutAfter = Infinity) => {
    const seq = after.frames.at(-1)?.seq ?? -1
    const headers = { 'last-event-id': `${id}:${seq}` }
    const path = real.path(session, id, 'stream')
    return await real.read(gateway, path, { headers, first: seq + 1, cutAfter })
  }
  const second = await on(two, first, 100_000)
  const third = await on(one, second)
  const replays = await Promise.all(
    [one, two].map((gateway) => real.read(gateway, real.path(session, id, 'stream'), {})),
  )
  const [here, there] = replays
  const frames = [...first.frames, ...second.frames, ...third.frames]
  t.same(frames, here?.frames)
  t.ok(here && there?.bytes.equals(here.bytes), 'byte for byte the same on both')
  t.equal(frames.at(-1)?.kind, 'done')
  const message = await real.message(two, session, id)
  t.match(message, { status: 'completed', finish_reason: 'length' })
  const { text, usage = { prompt_tokens: 0, completion_tokens: 0 } } = saidIn(third)
  t.ok(message.content?.endsWith(text))
  t.equal(usage.completion_tokens, asked)
  const { prompt_tokens } = usage
  t.match(message.usage, { prompt_tokens, completion_tokens: asked, estimated: false })
  const cost = prompt_tokens * price.input + asked * price.output
  t.match(await eventually(() => chargeOf(message)), { amount: -cost, estimated: false })
  t.comment(
    `${first.frames.length} + ${second.frames.length} + ${third.frames.length} frames, ` +
      `${here?.bytes.length} bytes`,
  )
})

t.test('the gateway is killed: the slot is free, the message kept and paid', async (t) => {
  const session = await real.create(one, {})
  const body = { content: question, ...endless }
  const reading = real.read(one, real.path(session), { body }).catch(() => undefined)
  const id = await activeIn(session)
  await until(real.isCheckpointed)
  await one.kill()
  await stopped(t)
  t.equal(await reading, undefined, 'its reader was cut off')
  const onServer = await generated()
  const message = await finished(session, id)
  t.match(message, { status: 'incomplete', error: { code: 'upstream_incomplete' } })
  const { completion_tokens = 0 } = message.usage ?? {}
  const pieces = await real.tokensOf(message.content ?? '')
  t.ok(completion_tokens > 0, 'paid up to its last checkpoint')
  t.ok(completion_tokens <= onServer * 1.2)
  t.match(await eventually(() => chargeOf(message)), { amount: -(message.cost ?? 0) })
  const next = await real.read(two, real.path(session), {
    body: { content: 'We', max_tokens: 2 },
  })
  t.equal(next.frames.at(-1)?.kind, 'done', 'the session goes on')
  t.comment(`${onServer} generated, ${pieces} kept, ${completion_tokens} charged`)
})

async function finished(session: string, id: string): Promise<Message> {
  return await eventually(async () => {
    const message = await real.message(two, session, id)
    return message.status === 'in_progress' ? undefined : message
  })
}

t.test('no hold stays open', async (t) => {
  const { reserved } = await real.json<{ reserved: number }>(two, '/api/billing/balance')
  t.equal(reserved, 0)
})
