// No secret of a target is left in what its backend sends, in any encoding in which it could be written there.

import t from 'tap'
import { mask } from '../../src/backend/secrets.ts'
import { targetOf } from '../fixtures/target.ts'

const target = targetOf(
  'https://user:hunter22@backend.internal:8443/v1?api-version=2&code=query-secret-1',
  {
    key: 'sk-se"cr/et€',
    headers: { 'x-token': 'tok-12345', 'x-region': 'eu' },
  },
)

t.test('key, header values and address are removed, in every encoding', async (t) => {
  const secrets = [
    'sk-se"cr/et€',
    'tok-12345',
    'backend.internal:8443',
    'hunter22',
    'query-secret-1',
    target.url,
  ]
  for (const secret of secrets) {
    const forms = [
      secret,
      JSON.stringify(secret).slice(1, -1),
      JSON.stringify(secret).slice(1, -1).replaceAll('/', '\\/'),
      Buffer.from(secret).toString('base64'),
      Buffer.from(secret).toString('base64url'),
      encodeURIComponent(secret),
    ]
    for (const form of forms) {
      const masked = mask(Buffer.from(`{"error":"at ${form} and ${form}."}`), target).toString()
      t.notMatch(masked, form.slice(2, -2), form)
      t.match(masked, /^\{"error":"at \*\*\*.* and \*\*\*.*\."\}$/)
    }
  }
})

t.test('a bare host name is removed, too', async (t) => {
  const masked = mask('getaddrinfo ENOTFOUND backend.internal', target)
  t.equal(masked, 'getaddrinfo ENOTFOUND ***')
})

t.test('short header values are no secrets', async (t) => {
  t.equal(mask('neutral euro', target), 'neutral euro')
})

t.test('bytes without a secret are returned unchanged', async (t) => {
  const bytes = Buffer.from([0xff, 0x00, 0xc3, 0x28])
  t.equal(mask(bytes, target), bytes)
})

t.test('bytes around a secret stay as they are', async (t) => {
  const around = Buffer.from([0xff, 0xc3])
  const masked = mask(Buffer.concat([around, Buffer.from('tok-12345'), around]), target)
  t.strictSame([...masked], [0xff, 0xc3, 0x2a, 0x2a, 0x2a, 0xff, 0xc3])
})

t.test('the demo target has no secrets', async (t) => {
  t.equal(mask('demo model', targetOf('demo')), 'demo model')
})
