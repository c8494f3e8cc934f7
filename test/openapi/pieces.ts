import t from 'tap'
import { objects } from '../../src/openapi/objects.ts'
import { events, pieces } from '../../src/openapi/pieces.ts'

t.test('no piece has the title of an object', async (t) => {
  for (const title of Object.keys(pieces)) t.notOk(Object.hasOwn(objects, title), title)
})

t.test(
  'an event of a session has the id by which it is found again, one of /v1 has none',
  async (t) => {
    t.strictSame(events['StreamEvent']?.['required'], ['id', 'data'])
    t.notMatch(Object.keys(Object(events['PlainEvent']?.['properties'])), ['id'])
    const { id } = Object(events['StreamEvent']?.['properties']) as { id: { pattern: string } }
    t.match(`msg_${'0a'.repeat(16)}:17`, new RegExp(id.pattern))
    t.notMatch(`msg_${'0a'.repeat(16)}`, new RegExp(id.pattern))
  },
)
