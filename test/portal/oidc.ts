import t from 'tap'
import { z } from '../../src/config/schema.ts'
import { createAccounts } from '../../src/accounts/accounts.ts'
import { admit, join } from '../../src/portal/oidc.ts'
import { portalSettings } from '../../src/portal/settings.ts'
import { openOn } from '../fixtures/ledger.ts'

const settings = (more: object = {}) => {
  const oidc = { issuer: 'https://id.example.com/a', client_id: 'c', ...more }
  const parsed = z.strictObject(portalSettings.shape).parse({ oidc }).oidc
  if (!parsed) throw new Error('no settings')
  return parsed
}
const deletedLogins = { recall: async () => undefined }
const person = (claims: object, userInfo: object = {}) =>
  ({ claims: { sub: 's', ...claims }, userInfo: { sub: 's', ...userInfo } }) as never

t.test('two issuers never share an account, nor do two claims', async (t) => {
  const ids = [
    admit(person({}), settings()),
    admit(person({}), settings({ issuer: 'https://id.example.com/b' })),
    admit(person({ team: 's' }), settings({ account_claim: 'team' })),
    admit(person({ sub: 'x'.repeat(900) }), settings()),
    admit(person({ sub: 'x'.repeat(901) }), settings()),
  ].map(({ externalId }) => externalId)
  t.equal(new Set(ids).size, 5)
  t.ok(ids.every((id) => id.length <= 255))
})

t.test('an address counts only with the mark of where it comes from', async (t) => {
  const byDomain = settings({ allow: { domains: ['example.com'] } })
  const good = { email: 'a@example.com', email_verified: true }
  t.equal(admit(person({}, good), byDomain).name, 'a@example.com')
  const mixed = person({ email: 'evil@example.com' }, { email: 'x@y', email_verified: true })
  t.throws(() => admit(mixed, byDomain), { code: 'login_refused' })
})

t.test('nobody takes the name of another account', async (t) => {
  const { link, ledger } = await openOn(t)
  const accounts = createAccounts(link.client, { plugins: new Map() })
  const parts = { accounts, ledger, deletedLogins, settings: settings({ starting_balance: 7 }) }
  const { account: acme } = await accounts.createAccount({ name: 'a@example.com' })
  const { account } = await join(parts, { externalId: 'e', name: 'a@example.com' })
  t.not(account.id, acme.id)
  t.match(account.name, /^a@example\.com \([0-9a-f]{8}\)$/)
  const named = admit(person({ preferred_username: 'acme', name: 'acme' }), settings())
  t.equal(named.name, 'id.example.com/s')
})

t.test(
  'an account of the operator gets no starting balance, and one of a log-in gets it late',
  async (t) => {
    const { link, ledger } = await openOn(t)
    const accounts = createAccounts(link.client, { plugins: new Map() })
    const parts = { accounts, ledger, deletedLogins, settings: settings({ starting_balance: 7 }) }
    const own = await accounts.createAccount({ name: 'own', externalId: 'own' })
    t.equal((await join(parts, { externalId: 'own', name: 'x' })).ref, own.ref)
    t.equal((await ledger.balance(own.ref)).granted, 0)
    const dying = { ...parts, ledger: { credit: () => Promise.reject(new Error('killed')) } }
    await t.rejects(join(dying, { externalId: 'e', name: 'n' }), /killed/)
    const { ref } = await join(parts, { externalId: 'e', name: 'n' })
    await join(parts, { externalId: 'e', name: 'n' })
    t.equal((await ledger.balance(ref)).granted, 7)
  },
)
