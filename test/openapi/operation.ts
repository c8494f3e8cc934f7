import t from 'tap'
import { json, parseLine } from '../../src/openapi/operation.ts'

t.test('a line has a method and one path or several', async (t) => {
  t.strictSame(parseLine('GET /v1/models'), { method: 'GET', paths: ['/v1/models'] })
  t.strictSame(parseLine('POST /a, /b/:id'), { method: 'POST', paths: ['/a', '/b/:id'] })
})

t.test('JSON is a media type with a schema', async (t) => {
  t.strictSame(json({ type: 'object' }), { 'application/json': { type: 'object' } })
})
