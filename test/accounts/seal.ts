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
  const changed = (sealed.startsWith('A') ? 'B' : 'A') + sealed.slice(1)
  for (const bad of ['', 'x', sealed.slice(0, -4), changed])
    t.throws(() => unseal(bad, key), bad.slice(0, 8))
})

t.test('a text that only decodes to the same bytes is refused', async (t) => {
  const key = randomBytes(32)
  const sealed = seal('a secret', key)
  for (const bad of [`${sealed}B`, `${sealed}=`, ` ${sealed}`, `${sealed}\n`])
    t.throws(() => unseal(bad, key), JSON.stringify(bad.replace(sealed, '…')))
})

t.test('a short tag, which is easier to guess, is refused', async (t) => {
  const key = randomBytes(32)
  const whole = Buffer.from(seal('', key), 'base64url')
  t.equal(unseal(whole.toString('base64url'), key), '')
  for (const bytes of [4, 8, 12, 15])
    t.throws(() => unseal(whole.subarray(0, 12 + bytes).toString('base64url'), key), String(bytes))
})
