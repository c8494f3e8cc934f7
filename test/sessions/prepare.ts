// A send becomes a request for its backend and rows to store, and nothing is written before it is known to fit.

import t from 'tap'
import { idAfter, newId } from '../../src/ids.ts'
import type { Context } from '../../src/sessions/context.ts'
import type { StoredMessage } from '../../src/sessions/message.ts'
import { prepare } from '../../src/sessions/prepare.ts'
import { parseSend } from '../../src/sessions/turns.ts'
import { rowOf } from '../fixtures/stream.ts'
import { modelOf, targetOf } from '../fixtures/target.ts'

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

const send = (body: object, context: Context = contextOf()) =>
  prepare({ send: parseSend(Buffer.from(JSON.stringify(body)), limits), context, model, hold: 'h' })

const bodyOf = ({ request }: Awaited<ReturnType<typeof prepare>>) =>
  JSON.parse(request.bodyFor(target, 50).toString()) as Record<string, unknown>

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

t.test('ids go up, also behind those of a clock that is ahead', async (t) => {
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

t.test('no more history is read than there is room for', async (t) => {
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

t.test('what the model can not take is refused', async (t) => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } }
  await t.rejects(send({ content: [image] }), { code: 'unsupported_attachment' })
  await t.rejects(send({ content: 'Hi', best_of: 3 }), { code: 'unknown_parameter' })
})
