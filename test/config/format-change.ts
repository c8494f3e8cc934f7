import t from 'tap'
import { formatChange } from '../../src/config/format-change.ts'

t.test('a change is a line: both values where they are short', async (t) => {
  t.equal(formatChange({ path: 'a.b', from: 1, to: '2s' }), 'a.b: 1 → "2s"')
  t.equal(formatChange({ path: 'a', from: undefined, to: true }), 'a: added, true')
  t.equal(formatChange({ path: 'a', to: 'x'.repeat(200) }), 'a: added')
  t.equal(formatChange({ path: 'a', from: 1 }), 'a: removed')
  t.equal(formatChange({ path: 'a', from: 'x'.repeat(200), to: 1 }), 'a: changed')
  t.equal(formatChange({ path: 'key', from: '***', to: '***' }), 'key: changed, and is not shown')
})
