import t from 'tap'
import type { Exchange } from '../../src/exchange.ts'
import { newId } from '../../src/ids.ts'
import { idsOf, pageOf, refOf, route } from '../../src/plugins/sessions-route.ts'

const asked = (fields: Partial<Exchange>) => fields as Exchange
const query = (text: string) => asked({ query: new URLSearchParams(text) })

t.test('a cursor is an id of what is listed, whether it is there or not', async (t) => {
  const id = newId('msg')
  t.match(pageOf(query(`after=${id}`), 'msg', 'asc'), { after: id, order: 'asc', limit: 20 })
  t.match(pageOf(query(`before=${id}&order=desc`), 'msg', 'asc'), { before: id, order: 'desc' })
  for (const wrong of ['x', newId('sess'), `${id}0`, '%ff', '%00', '[', '-', '+']) {
    for (const param of ['after', 'before']) {
      const faulty = { code: 'invalid_parameter', param }
      t.throws(() => pageOf(query(`${param}=${wrong}`), 'msg', 'asc'), faulty, wrong)
    }
  }
})

t.test('what is not in the path is no id, and nobody is no account', async (t) => {
  t.same(idsOf(asked({ params: { id: 's', mid: 'm' } })), { session: 's', message: 'm' })
  t.same(idsOf(asked({ params: {} })), { session: '', message: '' })
  t.throws(() => refOf(asked({})), { code: 'missing_api_key' })
})

t.test(
  'a route stands below the path of sessions, and reads a body where it is bounded',
  async (t) => {
    const serve = async () => ({ status: 200, body: '' })
    const common = { path: '/api/chat/sessions/:id', access: 'sessions', serve }
    t.strictSame(route('GET', '/:id', { serve }), { ...common, method: 'GET', body: 'none' })
    const bounded = { ...common, method: 'PATCH', body: 'json', maxBytes: 5 }
    t.strictSame(route('PATCH', '/:id', { serve, maxBytes: 5 }), bounded)
  },
)
