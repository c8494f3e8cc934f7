// Targets that fail, as users of sessions see them: only that an answer takes longer. On /v1: test/chat/attempts.ts.

import t from 'tap'
import type { Test } from 'tap'
import { behind, reset, silent, sse } from '../fixtures/backend-scripts.ts'
import { Gate } from '../fixtures/gate.ts'
import { chargesOf } from '../fixtures/money.ts'
import { chatOf, messageIdOf, noLimits } from '../fixtures/session-chat.ts'
import { parseStream } from '../fixtures/sse-grammar.ts'
import { targetsPath } from '../fixtures/targets-path.ts'
import type { TargetsPathOptions } from '../fixtures/targets-path.ts'
import { until } from '../fixtures/until.ts'

const role = 'data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n'
const oom = 'data: {"error":{"message":"out of memory"}}\n\n'

async function world(t: Test, { yaml = '', ...options }: TargetsPathOptions = {}) {
  const path = await targetsPath(t, { ...options, yaml: `${noLimits}\n${yaml}` })
  return { ...path, ...chatOf(t, path.gate, path) }
}

t.test(
  "a session's message whose first target fails is one answer, and is paid once",
  async (t) => {
    const path = await world(t, { count: 3 })
    const { backends, gate, spent, session, send, message, at } = path
    backends[0]?.on(sse([role, oom]))
    backends[1]?.on(sse([role], { end: 'cut' }))
    const id = await session({ model: 'm' })
    const answer = await send(id)
    t.equal(answer.status, 200)
    const { frames } = parseStream(await answer.end(), { message: messageIdOf(answer) })
    const [first, last] = [frames[0], frames.at(-1)]
    t.equal(first?.seq, 0, 'the frames of failed targets take no numbers')
    t.equal(last?.data, '[DONE]')
    t.notMatch(frames.map(({ data }) => data).join(), /error/)
    const row = await message(id, messageIdOf(answer))
    t.match(row, { status: 'completed', content: 'w0 w1 w2 w3 w4 ', finish_reason: 'stop' })
    const again = await at(`/${id}/messages/${messageIdOf(answer)}/stream`)
    t.strictSame(parseStream(await again.end()).frames, frames, 'what is read again is the same')
    t.equal((await chargesOf(gate, path)).length, 1)
    t.equal(await spent(), row.cost)
  },
)

t.test('who leaves while a target fails finds the answer of another one', async (t) => {
  const { backends, session, send, messages } = await world(t)
  const gate = new Gate()
  backends[0]?.on(behind(gate, reset))
  const id = await session({ model: 'm' })
  const leaving = send(id)
  leaving.catch(() => undefined)
  await backends[0]?.request(0)
  gate.open()
  const answer = await leaving
  answer.leave()
  await until(async () => (await messages(id)).at(-1)?.status === 'completed')
})

t.test('a cancelled message asks no other target', async (t) => {
  const yaml = 'limits: { session_first_event: 50ms }'
  const { backends, asked, session, send, at, message } = await world(t, { yaml })
  backends[0]?.on(silent)
  const id = await session({ model: 'm' })
  const answer = await send(id)
  const { status } = await at(`/${id}/messages/${messageIdOf(answer)}/cancel`, { method: 'POST' })
  t.equal(status, 200)
  t.equal((await message(id, messageIdOf(answer))).status, 'cancelled')
  t.strictSame(asked(), [1, 0])
})
