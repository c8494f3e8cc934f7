// A send becomes a request for its backend and rows to store; nothing is written before it is known to fit.

import { isCluster } from '../../../src/redis/client.ts'
import t from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { putToSleep } from '../../../src/sessions/asleep/sleeping.ts'
import { idAfter, newId } from '../../../src/ids.ts'
import type { Context, PrepareOptions } from '../../../src/sessions/sending/prepare.ts'
import type { StoredMessage } from '../../../src/sessions/message.ts'
import { prepare, readContext } from '../../../src/sessions/sending/prepare.ts'
import { parseSend } from '../../../src/sessions/sending/parse-send.ts'
import { fileRow } from '../../fixtures/file-rows.ts'
import { openStreams, rowOf } from '../../fixtures/stream.ts'
import { modelOf, targetOf } from '../../fixtures/target.ts'
import { keys } from '../../../src/redis/keys.ts'
import type { Opened } from '../../fixtures/stream.ts'

const target = targetOf('http://127.0.0.1:1')
const model = modelOf([target], { bytesPerToken: 4, contextWindow: 1000, maxOutputTokens: 100 })

const limits = { attachments: 10, jsonApiBytes: 1 << 20 }

function contextOf(messages: readonly StoredMessage[] = []): Context & { readonly read: number } {
  let read = 0
  return {
    model: 'm',
    instructions: 'Be brief',
    last: messages[0]?.id,
    active: undefined,
    seen: '',
    async *messages() {
      for (const one of messages) {
        read++
        yield one
      }
    },
    get read() {
      return read
    },
  }
}

const send = (
  body: object,
  context: Context = contextOf(),
  more: Partial<Pick<PrepareOptions, 'model' | 'files'>> = {},
) =>
  prepare({
    send: parseSend(Buffer.from(JSON.stringify(body)), {
      ...limits,
      takesFiles: more.files !== undefined,
    }),
    context,
    model,
    hold: 'h',
    ref: 'a',
    inlineBytes: limits.jsonApiBytes,
    ...more,
  })

const bodyOf = ({ request }: Awaited<ReturnType<typeof prepare>>) =>
  JSON.parse(request.bodyFor(target, { grantedPerChoice: 50 }).join('')) as Record<string, unknown>

t.test('a backend is asked with instructions, history and the new turn, as a stream', async (t) => {
  const user = (content: string) => rowOf({ role: 'user', content, status: 'completed' })
  const answer = rowOf({ content: 'Hello', status: 'completed' })
  const prepared = await send({ content: 'And now?' }, contextOf([answer, user('Hi')]))
  t.match(bodyOf(prepared), {
    stream: true,
    stream_options: { include_usage: true },
    messages: [
      { role: 'system', content: 'Be brief' },
      { role: 'user', content: 'Hi' },
      { role: 'assistant', content: 'Hello' },
      { role: 'user', content: 'And now?' },
    ],
  })
  t.equal(prepared.request.wantsUsage, true)
  t.ok(prepared.request.promptTokens > 5)
})

t.test('rows are the turns as they were said, then the answer in progress', async (t) => {
  const tool = { role: 'tool', tool_call_id: 'a', content: 'done' }
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } } as const
  const called = rowOf({ status: 'completed', tool_calls: [call] })
  const asked = rowOf({ role: 'user', content: 'Do', status: 'completed' })
  const { stored, draft } = await send({ messages: [tool] }, contextOf([called, asked]))
  t.equal(stored.length, 2)
  t.match(stored[0], { ...tool, status: 'completed', model: null, cost: null })
  t.notOk('hold' in (stored[0] ?? {}))
  t.equal(stored[1], draft)
  const open = { role: 'assistant', content: null, status: 'in_progress', completed_at: null }
  t.match(draft, { ...open, model: 'm', hold: 'h' })
})

t.test('ids increase, also after those of a clock that is ahead', async (t) => {
  const ahead = `msg_${'f'.repeat(8)}${newId('msg').slice(12)}`
  const last = rowOf({ id: ahead, role: 'user', content: 'x', status: 'completed' })
  for (const context of [contextOf(), contextOf([last])]) {
    const { stored } = await send({ content: 'Hi' }, context)
    const ids = [context.last ?? '', ...stored.map(({ id }) => id)]
    t.same(ids, [...new Set(ids)].toSorted())
  }
  const { stored } = await send({ content: 'Hi' }, contextOf([last]))
  t.equal(stored[0]?.id, idAfter(ahead))
})

t.test('only as much history is read as there is room for', async (t) => {
  const long = Array.from({ length: 100 }, (_, i) =>
    rowOf({ role: i % 2 ? 'user' : 'assistant', content: 'x'.repeat(1000), status: 'completed' }),
  )
  const context = contextOf(long)
  const prepared = await send({ content: 'Hi' }, context)
  t.ok(context.read < 10, `${context.read}`)
  t.ok(prepared.request.promptTokens <= 1000)
  const messages = bodyOf(prepared).messages as readonly object[]
  t.ok(messages.length > 1 && messages.length < 10)
})

t.test('content that the model can not take is refused', async (t) => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
  await t.rejects(send({ content: [image] }), { code: 'unsupported_attachment' })
  await t.rejects(send({ content: 'Hi', use_beam_search: true }), { code: 'unknown_parameter' })
})

const session = `sess_${'0'.repeat(32)}`
const wide = modelOf([target], {
  accepts: ['text', 'image', 'file'],
  bytesPerToken: 4,
  contextWindow: 100_000,
  maxOutputTokens: 100,
})
const gif = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='

t.test('without files nothing is to be filled in', async (t) => {
  for (const files of [undefined, new Map()]) {
    t.equal((await send({ content: 'Hi' }, contextOf(), { files })).filling, undefined)
  }
})

t.test('with files, what it costs is known before they are read', async (t) => {
  const text = fileRow({ session, contentType: 'text/plain', filename: 'a.txt', bytes: 4000 })
  const older = fileRow({ session, contentType: 'application/pdf', filename: 'b.pdf', bytes: 1000 })
  const { id: file_id, bytes, contentType: content_type, filename } = older
  const reference = { file_id, kind: 'file', bytes, content_type, filename } as const
  const asked = rowOf({
    role: 'user',
    content: [{ type: 'file', file: reference }],
    status: 'completed',
  })
  const content = [
    { type: 'file', file: { file_id: text.id } },
    { type: 'image_url', image_url: { url: gif } },
  ]
  const context = contextOf([rowOf({ content: 'Seen', status: 'completed' }), asked])
  const files = new Map([[text.id, text]])
  const prepared = await send({ content }, context, { model: wide, files })
  const { filling, request, stored } = prepared
  if (!filling) return t.fail('nothing to fill in')
  t.match(filling.fresh, [{ file_id: text.id }])
  t.match(filling.older, [{ file_id: older.id }])
  t.match(filling.images, [{ filename: 'image-1.gif' }])
  t.equal(filling.bytes, 8000 + 1336)
  t.ok(request.promptTokens > 1000 + 1500 + 100 && request.promptTokens < 3000)
  t.notMatch(JSON.stringify(stored), 'base64')
  t.match(stored[0]?.content, [{ file: { kind: 'text', bytes: 4000 } }, { file: { bytes: 14 } }])

  const image = filling.images[0]
  const contents = new Map([
    [text.id, Buffer.from('words '.repeat(10))],
    [image?.id ?? '', Buffer.from(image?.base64 ?? '', 'base64')],
  ])
  const whole = await filling.request(contents)
  t.equal(whole.promptTokens, request.promptTokens)
  t.ok((await whole.countPrompt()) <= request.promptTokens)
  const { messages } = bodyOf({ ...prepared, request: whole }) as { messages: unknown[] }
  t.strictSame(messages.slice(1), [
    { role: 'user', content: [{ type: 'text', text: '[file: b.pdf]' }] },
    { role: 'assistant', content: 'Seen' },
    {
      role: 'user',
      content: [
        { type: 'text', text: `[file: a.txt]\n${'words '.repeat(10)}` },
        { type: 'image_url', image_url: { url: gif } },
      ],
    },
  ])
})

t.test('a prompt of text alone is counted with its files', async (t) => {
  const text = fileRow({ session, contentType: 'text/plain', bytes: 6000 })
  const content = [{ type: 'file', file: { file_id: text.id } }]
  const files = new Map([[text.id, text]])
  const { filling } = await send({ content }, contextOf(), { model: wide, files })
  const contents = new Map([[text.id, Buffer.from('word '.repeat(1200))]])
  const counted = await (await filling?.request(contents))?.countPrompt()
  t.ok(counted && counted > 1100 && counted < 1400, `${counted}`)
})

const idsOf = async ({ messages }: Context) => {
  const ids: string[] = []
  for await (const { id } of messages()) ids.push(id)
  return ids
}

/** A session with messages of `bytes` each. */
async function fill({ redis, ref }: Opened, count: number, bytes = 10) {
  const session = newId('sess')
  await redis.hset(keys.session(ref, session), 'id', session)
  const ids = Array.from({ length: count }, () => newId('msg'))
  const batch = redis.pipeline()
  for (const id of ids) {
    const row = JSON.stringify(rowOf({ id, content: 'x'.repeat(bytes) }))
    batch.zadd(keys.messageIds(ref, session), 0, id)
    batch.hset(keys.messages(ref, session), id, row)
  }
  await batch.exec()
  return { session, ids: ids.toReversed() }
}

const flights = async ({ redis }: Opened) =>
  Number((await redis.info('commandstats')).match(/evalsha:calls=(\d+)/)?.[1] ?? 0)

t.test('its settings are what the session has, or nothing', async (t) => {
  const { scripts, waking, ref, redis, start } = await openStreams(t)
  const owned = await start()
  const { session, message } = owned
  const settings = { model: 'm', instructions: 'Be brief' }
  t.match(await readContext({ scripts, waking }, ref, session), {
    model: undefined,
    instructions: null,
    last: message,
    active: message,
  })
  await redis.hset(keys.session(ref, session), settings)
  t.match(await readContext({ scripts, waking }, ref, session), settings)
})

t.test('messages come newest first, each once, however many', async (t) => {
  const opened = await openStreams(t)
  const { scripts, waking, ref } = opened
  await opened.scripts.load()
  for (const count of [0, 1, 255, 256, 257, 512, 600]) {
    const { session, ids } = await fill(opened, count)
    const before = await flights(opened)
    t.same(await idsOf(await readContext({ scripts, waking }, ref, session)), ids, `${count}`)
    const asked = (await flights(opened)) - before
    t.equal(asked, Math.max(1, Math.ceil(count / 256)), `${count} in ${asked} flights`)
  }
})

t.test('large messages come in more flights, and who needs no more asks for none', async (t) => {
  const opened = await openStreams(t)
  const { scripts, waking, ref } = opened
  await opened.scripts.load()
  const { session, ids } = await fill(opened, 6, 600_000)
  const before = await flights(opened)
  t.same(await idsOf(await readContext({ scripts, waking }, ref, session)), ids)
  t.equal((await flights(opened)) - before, 7, 'the first has no room for any')
  const context = await readContext({ scripts, waking }, ref, session)
  for await (const { id } of context.messages()) {
    t.equal(id, ids[0])
    break
  }
  t.equal((await flights(opened)) - before, 9)
})

t.test('until a send has its turn, it has little of its history in memory', async (t) => {
  const opened = await openStreams(t)
  const { scripts, waking, ref, redis } = opened
  await opened.scripts.load()
  const { session } = await fill(opened, 3, 2_000_000)
  if (isCluster(redis)) throw new Error('not one server')
  const before = redis.stream.bytesRead ?? 0
  await readContext({ scripts, waking }, ref, session)
  t.ok(redis.stream.bytesRead - before < 100_000)
})

t.test('sends of one account are prepared one after the other', async (t) => {
  let [reading, most] = [0, 0]
  const slow: Context = {
    ...contextOf(),
    last: newId('msg'),
    async *messages() {
      most = Math.max(most, ++reading)
      await new Promise(setImmediate)
      yield rowOf({ content: 'Hello', status: 'completed' })
      reading--
    },
  }
  await Promise.all(Array.from({ length: 20 }, () => send({ content: 'Hi' }, slow)))
  t.equal(most, 1)
})

t.test('an invalid row is skipped', async (t) => {
  const opened = await openStreams(t)
  const { scripts, waking, ref, redis } = opened
  const { session, ids } = await fill(opened, 3)
  await redis.hset(keys.messages(ref, session), ids[1] ?? '', '{"no":"message"}')
  await redis.hdel(keys.messages(ref, session), ids[2] ?? '')
  t.same(await idsOf(await readContext({ scripts, waking }, ref, session)), [ids[0]])
})

t.test('a missing session, or an invalid one, is session_not_found', async (t) => {
  const { scripts, waking, ref, server } = await openStreams(t)
  for (const id of [newId('sess'), newId('msg'), '', 'x}:sessions', `sess_${'0'.repeat(31)}`]) {
    await t.rejects(readContext({ scripts, waking }, ref, id), { code: 'session_not_found' }, id)
  }
  await server.stop()
  await t.rejects(readContext({ scripts, waking }, ref, newId('sess')), {
    code: 'ledger_unavailable',
  })
})

t.test(
  'a session that sleeps is read as a whole, but only for who may have it woken',
  async (t) => {
    const { scripts, waking, ref, redis, rows, start, asleepParts } = await openStreams(t)
    const owned = await start()
    const { session, message } = owned
    const ended = JSON.stringify(rowOf({ id: message, status: 'completed', content: 'x' }))
    await rows.finish(owned, { first: 0, count: 1, text: 'x' }, ended)
    const ids = owned.rows.map(([id]) => id)
    t.ok(await putToSleep(asleepParts, { ref, session }))
    const mayWake = Promise.reject(new GatewayError('invalid_api_key'))
    mayWake.catch(() => undefined) // until it is awaited
    const stranger = readContext({ scripts, waking, mayWake }, ref, session)
    await t.rejects(stranger, { code: 'invalid_api_key' })
    t.ok(await redis.hexists(keys.session(ref, session), 'asleep'))
    const reading = { scripts, waking, mayWake: Promise.resolve() }
    const context = await readContext(reading, ref, session)
    t.equal(context.seen, `${message}:1`)
    t.same(await idsOf(context), ids.toReversed())
  },
)
