import t from 'tap'
import { errorTable } from '../src/error-table.ts'

t.test('each row says a whole sentence, and where to try again is worth it', async (t) => {
  for (const [code, { status, retry, message }] of Object.entries(errorTable)) {
    t.match(message, /^[A-Z].*[.]$/, code)
    const isForLater = [408, 429, 500, 502, 503].includes(status)
    if (isForLater) t.ok(retry, `${code} may succeed later`)
    if (status < 400 || status > 504) t.fail(code)
  }
})
