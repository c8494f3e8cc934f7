import t from 'tap'
import { newId } from '../src/ids.ts'

t.test('an id is its prefix and 32 hex digits, greater than every id before it', async (t) => {
  let last = ''
  for (let i = 0; i < 10_000; i++) {
    const id = newId('key')
    if (!/^key_[0-9a-f]{12}7[0-9a-f]{19}$/.test(id) || id <= last) t.fail(`${id} after ${last}`)
    last = id
  }
  t.match(last, /^key_/)
})
