import t from 'tap'
import { ok, route } from '../../../src/plugins/admin/route.ts'

t.test(
  'every route stands on the admin listener and needs the token; only writing ones read a body',
  async (t) => {
    const serve = async () => ok({})
    for (const method of ['GET', 'POST', 'PATCH', 'DELETE'] as const) {
      const body = method === 'POST' || method === 'PATCH' ? 'json' : 'none'
      const expected = { method, path: '/admin/x', listener: 'admin', access: 'admin-token', body }
      t.match(route(method, 'x', serve), expected)
    }
    t.strictSame(ok({ a: 1 }), { status: 200, headers: {}, body: '{"a":1}' })
  },
)
