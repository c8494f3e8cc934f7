import t from 'tap'
import { idempotencyKey } from '../../src/http/idempotency-key.ts'

t.test('a key is 1 to 255 visible ASCII characters, or it is refused', async (t) => {
  t.equal(idempotencyKey({}), undefined)
  for (const key of ['!', 'a'.repeat(255), '~"{}']) {
    t.equal(idempotencyKey({ 'idempotency-key': key }), key)
  }
  for (const key of ['', 'a'.repeat(256), 'a b', 'ä', 'a\n']) {
    const refused = { code: 'invalid_parameter', param: 'Idempotency-Key' }
    t.throws(() => idempotencyKey({ 'idempotency-key': key }), refused, JSON.stringify(key))
  }
})
