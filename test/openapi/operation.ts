import t from 'tap'
import { parseLine } from '../../src/openapi/operation.ts'

t.test('a line has a method and one path or several', async (t) => {
  t.strictSame(parseLine('GET /v1/models'), { method: 'GET', paths: ['/v1/models'] })
  t.strictSame(parseLine('POST /a, /b/:id'), { method: 'POST', paths: ['/a', '/b/:id'] })
})
