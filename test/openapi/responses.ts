import t from 'tap'
import type { Operation } from '../../src/openapi/operation.ts'
import { SharedResponses, answerOf, refusalResponses } from '../../src/openapi/responses.ts'

const operation: Operation = { id: 'x', title: 'X', access: 'any-key', replies: {} }

/** The names of the components that each status refers to. */
function refusals(one: Operation, shared = new SharedResponses()) {
  const entries = Object.entries(refusalResponses(one, shared))
  const named = entries.map(([status, response]) => {
    const { $ref = '' } = response as { $ref?: string }
    return [status, $ref.replace('#/components/responses/', '')]
  })
  return { names: Object.fromEntries(named) as Record<string, string>, shared }
}

const typesOf = (response: unknown) =>
  Object.keys((response as { content: Record<string, unknown> }).content)

t.test('operations that refuse alike refer to one response', async (t) => {
  const shared = new SharedResponses()
  const first = refusals(operation, shared).names
  t.strictSame(refusals({ ...operation, id: 'y' }, shared).names, first)
  const other = refusals({ ...operation, codes: { model_not_found: '' } }, shared).names
  t.equal(other['401'], first['401'])
  t.not(other['404'], first['404'])
})

t.test('a key has limits, and a cookie has none', async (t) => {
  const headersOf = (access: Operation['access']) =>
    Object.keys(
      answerOf({ says: 'x' }, { ...operation, access })['headers'] as Record<string, unknown>,
    )
  t.ok(headersOf('any-key').includes('x-ratelimit-limit-requests'))
  t.strictSame(headersOf('cookie'), ['X-Request-Id'])
  t.strictSame(headersOf('anybody'), ['X-Request-Id'])
})

t.test('a cookie that is wrong is refused by other codes than a key', async (t) => {
  const { names, shared } = refusals({ ...operation, access: 'cookie' })
  const text = JSON.stringify(shared.components[names['401'] ?? ''])
  t.match(text, 'not_logged_in')
  t.notMatch(text, 'invalid_api_key')
})

t.test('for people a refusal that says when to come again may be a page', async (t) => {
  const { names, shared } = refusals({
    ...operation,
    codes: { rate_limit_exceeded: '' },
    refusesWithPage: true,
  })
  const of = (status: string) => typesOf(shared.components[names[status] ?? ''])
  t.strictSame(of('429'), ['application/json', 'text/html; charset=utf-8'])
  t.strictSame(of('404'), ['application/json'])
})
