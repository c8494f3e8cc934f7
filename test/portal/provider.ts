import t from 'tap'
import { z } from '../../src/config/schema.ts'
import { createProvider } from '../../src/portal/provider.ts'
import { portalSettings } from '../../src/portal/settings.ts'
import { clientId, clientSecret, startProvider } from '../fixtures/identity-provider.ts'

const parse = (oidc: object) => z.strictObject(portalSettings.shape).safeParse({ oidc })

const redirectUri = 'http://127.0.0.1:1/account/oidc/callback'

function settingsOf(issuer: string, more: object = {}) {
  const known = { issuer, client_id: clientId, client_secret: clientSecret, ...more }
  const { oidc } = parse(known).data ?? { oidc: undefined }
  if (!oidc) throw new Error('no settings')
  return oidc
}

t.test('openid is always asked for, and each log-in has its own state', async (t) => {
  const { issuer } = await startProvider(t, { redirectUri })
  const provider = createProvider(settingsOf(issuer, { scopes: ['groups'] }))
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

const away = { code: 'login_unavailable' }

t.test(
  'what a provider can do is read once an hour; while that fails, the last news hold',
  async (t) => {
    const known = await startProvider(t, { redirectUri })
    let nowMs = 0
    const provider = createProvider(settingsOf(known.issuer), { now: () => nowMs })
    await Promise.all([provider.begin(redirectUri), provider.begin(redirectUri)])
    nowMs += 3_599_000
    await provider.begin(redirectUri)
    t.equal(known.discoveries, 1)
    known.before = (_path, res) => void res.writeHead(500).end()
    for (const [passedMs, asked] of [
      [2000, 2],
      [4000, 2],
      [2000, 3],
    ] as const) {
      nowMs += passedMs
      t.ok((await provider.begin(redirectUri)).url.startsWith(`${known.issuer}/auth?`))
      t.match(await provider.endUrl('http://127.0.0.1:1/account'), `${known.issuer}/session/end?`)
      t.equal(known.discoveries, asked)
    }
    known.before = () => undefined
    nowMs += 6000
    const begun = performance.now()
    await provider.begin(redirectUri)
    t.ok(performance.now() - begun < 5000, 'nor does anybody wait for a provider that says nothing')
  },
)

t.test('a provider that was never there is asked again after five seconds', async (t) => {
  const known = await startProvider(t, { redirectUri })
  let nowMs = 0
  const provider = createProvider(settingsOf(known.issuer), { now: () => nowMs })
  known.before = (_path, res) => void res.writeHead(500).end()
  await t.rejects(provider.begin(redirectUri), away)
  known.before = undefined
  await t.rejects(provider.begin(redirectUri), away)
  nowMs += 5000
  t.ok(await provider.begin(redirectUri))
  t.equal(known.discoveries, 2)
})

t.test('its answers are bounded in time and size', async (t) => {
  const known = await startProvider(t, { redirectUri })
  const json = { 'content-type': 'application/json' }
  known.before = (_path, res) => {
    res.writeHead(200, json)
    res.write(JSON.stringify({ issuer: known.issuer, x: 'x'.repeat(2 * 1024 * 1024) }))
    res.end()
  }
  const error = await createProvider(settingsOf(known.issuer))
    .begin(redirectUri)
    .catch((e: unknown) => e)
  t.match(error, { ...away, cause: { message: 'the answer of the provider is too long' } })
  known.before = () => undefined
  const hasty = createProvider(settingsOf(known.issuer), { timeoutMs: 50 })
  await t.rejects(hasty.begin(redirectUri), away)
  await t.rejects(hasty.endUrl(redirectUri), away)
})

t.test('every time limit is one that a timer takes', async (t) => {
  const { issuer } = await startProvider(t, { redirectUri })
  for (const timeoutMs of [16_100, 64_100, 10_000]) {
    const provider = createProvider(settingsOf(issuer), { timeoutMs })
    t.equal((await provider.metadata()).issuer, issuer, String(timeoutMs))
  }
})
