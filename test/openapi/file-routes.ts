import t from 'tap'
import { fileRoutes } from '../../src/openapi/file-routes.ts'
import { codesOf } from '../fixtures/operations.ts'

t.test('whoever names a file may name one that is not there', async (t) => {
  for (const [line, operation] of Object.entries(fileRoutes)) {
    t.equal(codesOf(operation).has('file_not_found'), line.includes(':id'), line)
  }
})
