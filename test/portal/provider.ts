import t from 'tap'
import { z } from '../../src/config/schema.ts'
import { createProvider } from '../../src/portal/provider.ts'
import { portalSettings } from '../../src/portal/settings.ts'
import { clientId, clientSecret, startProvider } from '../fixtures/identity-provider.ts'

const parse = (oidc: object) => z.strictObject(portalSettings.shape).safeParse({ oidc })

t.test('openid is always asked for, and each log-in has its own state', async (t) => {
  const redirectUri = 'http://127.0.0.1:1/account/oidc/callback'
  const { issuer } = await startProvider(t, { redirectUri })
  const { oidc } = parse({
    issuer,
    client_id: clientId,
    client_secret: clientSecret,
    scopes: ['groups'],
  }).data ?? { oidc: undefined }
  if (!oidc) throw new Error('no settings')
  const provider = createProvider(oidc)
  const [one, two] = [await provider.begin(redirectUri), await provider.begin(redirectUri)]
  t.equal(new URL(one.url).searchParams.get('scope'), 'openid groups')
  for (const name of ['state', 'nonce', 'verifier'] as const)
    t.not(one.begun[name], two.begun[name])
  t.notMatch(one.url, one.begun.verifier)
  t.notMatch(one.url, clientSecret)
})

t.test('an issuer in clear is loopback', async (t) => {
  t.ok(parse({ issuer: 'http://127.0.0.1:1', client_id: 'a' }).success)
  t.ok(parse({ issuer: 'https://id.example.com/realms/a', client_id: 'a' }).success)
  for (const issuer of ['http://id.example.com', 'ftp://a', 'id.example.com', ''])
    t.notOk(parse({ issuer, client_id: 'a' }).success, issuer)
})
