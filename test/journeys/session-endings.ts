// Every way in which an answer in a session ends: the terminal that all readers get, and the message, the charge and
// the session that are left behind.

import t from 'tap'
import type { Test } from 'tap'
import type { Script } from '../fixtures/backend.ts'
import { chat, endless } from '../fixtures/backend-model.ts'
import { behind, failing, raw, reset, silent, sse } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { balanceOf, differencesOf, transactionsOf } from '../fixtures/money.ts'
import { messageIdOf, startChat } from '../fixtures/session-chat.ts'
import type { Chat, Live, Message } from '../fixtures/session-chat.ts'
import { parseStream } from '../fixtures/sse-grammar.ts'
import type { Frame } from '../fixtures/sse-grammar.ts'

const tokens = 100_000

interface Ending {
  readonly script: Script
  readonly model?: string
  readonly limits?: string
  readonly body?: object
  readonly tokens?: number
  /** Called when the headers are here. */
  readonly act?: (chat: Chat, message: string, live: Live) => Promise<unknown>
  /** The code of the terminal; '' for [DONE]. */
  readonly terminal: string
  readonly message: Readonly<Partial<Record<keyof Message, unknown>>>
}

const data = (value: object) => `data: ${JSON.stringify(value)}\n\n`
const chunk = (text: string) => data({ choices: [{ index: 0, delta: { content: text } }] })
const finish = data({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] })
const usage = data({ choices: [], usage: { prompt_tokens: 4, completion_tokens: 6 } })
const done = 'data: [DONE]\n\n'

const reported = { prompt_tokens: 4, completion_tokens: 6, total_tokens: 10, estimated: false }
const estimated = { estimated: true }
const completed = { status: 'completed', finish_reason: 'stop', error: null }
const incomplete = {
  status: 'incomplete',
  finish_reason: null,
  error: { type: 'upstream_error', code: 'upstream_incomplete', param: null },
}
const failed = (code: string) => ({ status: 'failed', finish_reason: null, error: { code } })
const cancelled = { status: 'cancelled', finish_reason: null, error: null }

const late = 'session_first_event: 20ms'

/** Runs the script when the headers are sent: whatever comes now ends a stream that has begun. */
function afterHeaders(script: Script): { script: Script; act: Ending['act'] } {
  const gate = new Gate()
  const act = async () => gate.open()
  return { script: behind(gate, script), act }
}

const stop = (chat: Chat, message: string) =>
  chat.at(`/${chat.sessionId}/messages/${message}/cancel`, { method: 'POST' })

/** Lets the first event pass. */
const thinking = new Gate()
thinking.next()

const endings: Readonly<Record<string, Ending>> = {
  'finished by the backend': {
    script: sse([chunk('a'), chunk('b'), finish, usage, done]),
    terminal: '',
    message: { ...completed, content: 'ab', usage: reported, cost: 10 },
  },
  'finished, and no [DONE]': {
    script: sse([chunk('a'), chunk('b'), finish, usage]),
    terminal: '',
    message: { ...completed, content: 'ab', usage: reported, cost: 10 },
  },
  'finished, then cut': {
    script: sse([chunk('ab'), finish], { end: 'cut' }),
    terminal: '',
    message: { ...completed, content: 'ab', usage: estimated },
  },
  'finished, without usage': {
    script: chat({ usage: 'never' }),
    terminal: '',
    message: { ...completed, usage: estimated },
  },
  'at its length': {
    script: chat(),
    body: { content: 'Hi', max_tokens: 3 },
    terminal: '',
    message: { ...completed, finish_reason: 'length', content: 'w0 w1 w2 ', cost: 4 + 3 },
  },
  'past its length: the backend is stopped': {
    script: endless(),
    body: { content: 'Hi', max_tokens: 20 },
    terminal: '',
    message: { ...completed, finish_reason: 'length', usage: estimated },
  },
  'out of money: by length': {
    script: endless(),
    tokens: 60,
    terminal: '',
    message: { ...completed, finish_reason: 'length', usage: estimated },
  },
  cut: {
    script: chat({ cut: true }),
    terminal: 'upstream_incomplete',
    message: { ...incomplete, content: 'w0 w1 w2 w3 w4 ', usage: estimated },
  },
  'a finish_reason without a word, then cut': {
    script: sse([chunk('a').replace('}]', ',"finish_reason":""}]')], { end: 'cut' }),
    terminal: 'upstream_incomplete',
    message: { ...incomplete, content: 'a' },
  },
  '[DONE] without a finish': {
    script: sse([chunk('a'), done]),
    terminal: 'upstream_incomplete',
    message: { ...incomplete, content: 'a' },
  },
  'an error event, and [DONE] behind it': {
    script: sse([chunk('a'), data({ error: { message: 'no', code: 'theirs' } }), done]),
    terminal: 'theirs',
    message: { ...failed('upstream_error'), content: 'a' },
  },
  'an error event first, behind the headers': {
    ...afterHeaders(sse([`event: error\n${data({ error: { message: 'no', code: 'theirs' } })}`])),
    limits: late,
    terminal: 'theirs',
    message: { ...failed('upstream_error'), content: null },
  },
  'silence between two events': {
    script: sse([chunk('a')], { end: false }),
    model: 'timeouts: { idle: 60ms }',
    terminal: 'upstream_timeout',
    message: { ...failed('upstream_timeout'), content: 'a' },
  },
  'too long in all': {
    script: endless({ gapMs: 5 }),
    limits: late,
    model: 'timeouts: { total: 150ms }',
    terminal: 'upstream_timeout',
    message: failed('upstream_timeout'),
  },
  'no first token, behind the headers': {
    script: silent,
    limits: late,
    model: 'timeouts: { first_token: 100ms }',
    terminal: 'upstream_timeout',
    message: { ...failed('upstream_timeout'), content: null },
  },
  'a refusal of several lines behind the headers': {
    ...afterHeaders(
      raw(
        'HTTP/1.1 400 No\r\nContent-Length: 47\r\n\r\n{\r\n\r\n\t"error": {\r "code":\n\n "theirs"\r\n\r}    \r\n}',
      ),
    ),
    limits: late,
    terminal: 'theirs',
    message: { ...failed('upstream_error'), content: null, cost: 0 },
  },
  '500 behind the headers': {
    ...afterHeaders(failing(500)),
    limits: late,
    terminal: 'upstream_error',
    message: { ...failed('upstream_error'), cost: 0 },
  },
  'a reset behind the headers': {
    ...afterHeaders(reset),
    limits: late,
    terminal: 'upstream_error',
    message: failed('upstream_error'),
  },
  'cancelled before the first content': {
    script: silent,
    limits: late,
    act: stop,
    terminal: 'message_cancelled',
    message: { ...cancelled, content: null },
  },
  cancelled: {
    script: sse([chunk('a'), chunk('b')], { end: false }),
    act: async (chat, message, live) => {
      await live.until(`${message}:1\n`)
      t.match(await (await stop(chat, message)).json(), {
        id: message,
        ...cancelled,
        content: 'ab',
      })
      t.match(await (await stop(chat, message)).json(), { id: message, ...cancelled }, 'again')
    },
    terminal: 'message_cancelled',
    message: { ...cancelled, content: 'ab', usage: estimated },
  },
  'cancelled, and read to its usage': {
    script: sse([chunk('a'), finish, usage, done], { gate: thinking }),
    model: 'hidden_reasoning: true',
    act: async (chat, message) => {
      await (await stop(chat, message)).end()
      thinking.open()
    },
    terminal: 'message_cancelled',
    message: { ...cancelled, content: 'a', usage: reported, cost: 10 },
  },
  'cancelled elsewhere': {
    script: sse([chunk('a'), chunk('b')], { end: false }),
    act: async (chat, message, live) => {
      await live.until(`${message}:1\n`)
      const other = await chat.another()
      const path = `/${chat.sessionId}/messages/${message}/cancel`
      const answer = await chat.at(path, { method: 'POST' }, other)
      t.match(await answer.json(), { id: message, ...cancelled, content: 'ab' })
    },
    terminal: 'message_cancelled',
    message: { ...cancelled, content: 'ab', usage: estimated },
  },
}

for (const [name, ending] of Object.entries(endings)) {
  t.test(name, async (t) => {
    const chat = await startChat(t, {
      script: ending.script,
      model: ending.model,
      yaml: `limits: { ${ending.limits ?? ''} }`,
      tokens: ending.tokens ?? tokens,
    })
    const live = await chat.send(chat.sessionId, ending.body)
    const message = messageIdOf(live)
    await ending.act?.(chat, message, live)
    const whole = await live.end()
    const { frames } = parseStream(whole, { first: 0, message })
    t.equal(codeOf(frames.at(-1)), ending.terminal)
    const read = await chat.message(chat.sessionId, message)
    t.match(read, { id: message, role: 'assistant', completed_at: Number, ...ending.message })
    t.equal(read.content ?? '', textOf(frames), 'what was said is kept')
    await afterwards(t, chat, { whole, message, cost: read.cost ?? NaN, ending })
  })
}

interface Left {
  readonly whole: Buffer
  readonly message: string
  readonly cost: number
  readonly ending: Ending
}

/** All readers get the same, the audit agrees with the message, and the session is free. */
async function afterwards(
  t: Test,
  chat: Chat,
  { whole, message, cost, ending }: Left,
): Promise<void> {
  const path = `/${chat.sessionId}/messages/${message}/stream`
  const other = await chat.another()
  for (const on of [chat.gateway, other]) {
    t.ok((await (await chat.at(path, {}, on)).end()).equals(whole), 'replayed alike')
  }
  const had = ending.tokens ?? tokens
  const paid = Math.min(had, cost)
  const owed = cost - paid
  t.match(await balanceOf(chat.gateway, chat.account), { balance: had - paid, reserved: 0, owed })
  const [, ...charges] = await transactionsOf(chat.gateway, chat.account)
  const charge = { type: 'charge', amount: -paid, session_id: chat.sessionId, message_id: message }
  t.match(charges, cost > 0 ? [charge] : [])
  t.equal(charges.length, cost > 0 ? 1 : 0, 'charged once')
  t.strictSame(await differencesOf(chat.gateway), [])
  t.match(await chat.read(`/${chat.sessionId}`), { active_message_id: null, message_count: 2 })
  chat.backend.on(sse([chunk('next'), finish, usage, done]))
  if (ending.tokens) return
  // By a model without the time limits of this one.
  const next = await chat.send(chat.sessionId, { content: 'Hi', model: 'other' })
  t.equal(next.status, 200)
  t.equal(codeOf(parseStream(await next.end()).frames.at(-1)), '', 'the session is free')
}

/** The code of a terminal; '' for [DONE]. */
function codeOf(frame: Frame | undefined): string | undefined {
  if (frame?.kind === 'done') return ''
  if (frame?.kind !== 'error') return undefined
  return (JSON.parse(frame.data) as { error: { code: string } }).error.code
}

function textOf(frames: readonly Frame[]): string {
  let text = ''
  for (const { kind, data } of frames) {
    if (kind !== 'frame') continue
    const { choices } = JSON.parse(data) as { choices: { delta?: { content?: string } }[] }
    text += choices[0]?.delta?.content ?? ''
  }
  return text
}
