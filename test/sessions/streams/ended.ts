// The final row of a message: every way in which it can end.

import t from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import type { ErrorCode } from '../../../src/errors.ts'
import { Assembly } from '../../../src/sessions/streams/assembly.ts'
import { ended, statusAfter, statusOf, usedBy } from '../../../src/sessions/streams/ended.ts'
import { parseStored } from '../../../src/sessions/message.ts'
import { rowOf, said } from '../../fixtures/stream.ts'

const assembly = (...data: readonly string[]) => {
  const one = new Assembly()
  for (const text of data) one.add(text)
  return one
}

const tokens = { prompt: 3, cached: 1, completion: 4 }
const usage = { ...tokens, estimated: true }

t.test('a final row has the words and the cost, and no owner', async (t) => {
  const draft = rowOf({ hold: 'h' })
  const finish = JSON.stringify({ choices: [{ delta: {}, finish_reason: 'stop' }] })
  const how = { said: assembly(said('Grüße'), finish), status: 'completed' } as const
  const row = ended(draft, { ...how, cost: 11, usage })
  t.match(row, {
    id: draft.id,
    content: 'Grüße',
    finish_reason: 'stop',
    status: 'completed',
    cost: 11,
    usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7, estimated: true },
    error: null,
    created_at: draft.created_at,
  })
  t.ok(Number(row.completed_at) > draft.created_at - 1e9)
  t.notOk('hold' in row)
  t.notOk('reasoning' in row)
  t.notOk('tool_calls' in row)
  t.same(parseStored(JSON.stringify(row)), row, 'a row that can be read')
})

t.test('reasoning and tool calls are kept too; without text the content is null', async (t) => {
  const call = { index: 0, id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  const delta = { reasoning_content: 'hm', tool_calls: [call] }
  const one = assembly(JSON.stringify({ choices: [{ delta }] }))
  const row = ended(rowOf(), { said: one, status: 'incomplete', cost: 0 })
  t.match(row, { content: null, reasoning: 'hm', tool_calls: [{ id: 'a' }], usage: null, cost: 0 })
})

t.test('an error is stored as it is answered; a cancel is no error', async (t) => {
  const error = new GatewayError('upstream_incomplete')
  const one = ended(rowOf(), { said: assembly(), status: 'incomplete', error, cost: 0 })
  t.match(one.error, { code: 'upstream_incomplete', type: error.type, param: null })
  t.equal(one.error?.message, error.message)
  const cancelled = new GatewayError('message_cancelled')
  const how = { said: assembly(), status: 'cancelled', error: cancelled, cost: 0 } as const
  t.equal(ended(rowOf(), how).error, null)
})

t.test('each end of a relay has its status', async (t) => {
  t.same(statusOf({ kind: 'complete' }), { status: 'completed' })
  t.same(statusOf({ kind: 'length', cut: true }), { status: 'completed' })
  t.same(statusOf({ kind: 'left' }), { status: 'cancelled' })
  const relayed = statusOf({ kind: 'relayed-error', event: { event: undefined, data: '{}' } })
  t.match(relayed, { status: 'failed', error: { code: 'upstream_error', source: 'backend' } })
  const statuses: Partial<Record<ErrorCode, string>> = {
    message_cancelled: 'cancelled',
    upstream_incomplete: 'incomplete',
    server_draining: 'incomplete',
    upstream_timeout: 'failed',
    upstream_error: 'failed',
    account_suspended: 'failed',
    ledger_unavailable: 'failed',
  }
  for (const [code, status] of Object.entries(statuses)) {
    const error = new GatewayError(code as ErrorCode)
    t.equal(statusAfter(error), status, code)
    t.same(statusOf({ kind: 'failed', error }), { status, error }, code)
  }
})

t.test('usage is what the settlement noted, and none where nothing was', async (t) => {
  const facts = { tokens, cost: 9, estimated: true }
  t.same(usedBy({ ...facts, basis: 'counted' }), { cost: 9, usage })
  t.same(usedBy({ ...facts, basis: 'none' }), { cost: 9, usage: undefined })
  t.same(usedBy({}), { cost: 0, usage: undefined })
})
