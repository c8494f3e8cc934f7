import { randomBytes } from 'node:crypto'
import t from 'tap'
import { seal, unseal } from '../../src/accounts/seal.ts'

t.test('a sealed text comes back, and no changed one does', async (t) => {
  const [key, other] = [randomBytes(32), randomBytes(32)]
  const sealed = seal('a secret ü', key)
  t.equal(unseal(sealed, key), 'a secret ü')
  t.not(seal('a secret ü', key), sealed)
  t.notMatch(Buffer.from(sealed, 'base64url').toString('latin1'), /secret/)
  t.throws(() => unseal(sealed, other))
  for (const bad of ['', 'x', sealed.slice(0, -4), `A${sealed.slice(1)}B`])
    t.throws(() => unseal(bad, key), bad.slice(0, 8))
})
