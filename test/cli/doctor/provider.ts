import t from 'tap'
import type { Test } from 'tap'
import { examineProvider, judgeAbilities } from '../../../src/cli/doctor/provider.ts'
import { z } from '../../../src/config/schema.ts'
import { portalSettings } from '../../../src/portal/settings.ts'
import { freePort } from '../../fixtures/free-port.ts'
import { startExamination } from '../../fixtures/examination.ts'
import { clientId, clientSecret, startProvider } from '../../fixtures/identity-provider.ts'

const url = 'https://chat.example.com'
const redirectUri = `${url}/account/oidc/callback`
const own = { client_id: clientId, client_secret: clientSecret }

async function examine(account: object, limitMs = 5000) {
  const settings = z.strictObject(portalSettings.shape).parse({ url, ...account })
  const { examination, lines } = startExamination({ limitMs })
  const plugins = new Map([['account', settings]])
  const listen = { port: 8080, tls: undefined }
  await examineProvider({ plugins, listen } as never, examination)
  return { lines, findings: examination.findings }
}

const start = (t: Test) => startProvider(t, { redirectUri })

t.test('a provider with which people can log in', async (t) => {
  const { issuer } = await start(t)
  const { lines } = await examine({ oidc: { issuer, ...own } })
  t.match(lines, [
    new RegExp(`^ok identity provider: ${issuer} answers, in \\d+ ms$`),
    'ok identity provider abilities: code flow, and all that is asked for',
    'ok identity provider keys: 1 for signatures',
    `ok identity provider redirect: people come back to ${redirectUri}`,
    'ok identity provider client: it knows client_id and client_secret',
  ])
  t.equal(lines.length, 5)
  t.notMatch(lines.join(), clientSecret)
})

t.test('without one there is nothing to try', async (t) => {
  t.strictSame((await examine({})).lines, [])
})

t.test('an issuer that calls itself otherwise', async (t) => {
  const { issuer } = await start(t)
  const other = issuer.replace('127.0.0.1', 'localhost')
  const { lines, findings } = await examine({ oidc: { issuer: other, ...own } })
  t.strictSame(lines, [
    `fail identity provider: it calls itself ${issuer}: write that as plugins.account.oidc.issuer`,
  ])
  t.notOk(findings[0]?.unreachable)
  const { lines: ofFile } = await examine({
    oidc: { issuer: `${issuer}/.well-known/openid-configuration`, ...own },
  })
  t.match(ofFile[0], /^warn identity provider: .*write http:\/\/127\.0\.0\.1:\d+$/)
})

t.test('what the provider does not know of this gateway', async (t) => {
  const { issuer } = await start(t)
  const wrongSecret = await examine({ oidc: { issuer, ...own, client_secret: 'another-secret' } })
  t.equal(
    wrongSecret.lines.at(-1),
    'fail identity provider client: it refuses client_id or client_secret',
  )
  t.notMatch(wrongSecret.lines.join(), 'another-secret')
  const wrongUrl = await examine({ url: 'https://other.example.com', oidc: { issuer, ...own } })
  t.match(
    wrongUrl.lines[3],
    /^fail identity provider redirect: 400 to a log-in: register the redirect address https:\/\/other\.example\.com\/account/,
  )
  const nobody = await examine({ oidc: { issuer, ...own, client_id: 'nobody' } })
  t.match(nobody.lines.slice(3), [/^fail .* redirect: 400/, /^fail .* client: it refuses/])
})

t.test('without a url people come back to this machine alone', async (t) => {
  const provider = await startProvider(t, {
    redirectUri: 'http://localhost:8080/account/oidc/callback',
  })
  const { lines } = await examine({ url: undefined, oidc: { issuer: provider.issuer, ...own } })
  t.match(lines[3], /^warn .* redirect: .*localhost:8080.*: set plugins\.account\.url$/)
})

t.test('a provider that is away, silent, or another server', async (t) => {
  const away = await examine({ oidc: { issuer: `http://127.0.0.1:${await freePort()}`, ...own } })
  t.match(away.lines, [/^fail identity provider: .*ECONNREFUSED/])
  t.equal(away.findings[0]?.unreachable, true)
  const provider = await start(t)
  const { issuer } = provider
  const { lines: lost } = await examine({ oidc: { issuer: `${issuer}/realms/none`, ...own } })
  t.match(lost, [
    /^fail identity provider: 404 for http.*\/realms\/none\/\.well-known\/.*issuer\?$/,
  ])
  provider.before = () => undefined
  const silent = await examine({ oidc: { issuer, ...own } }, 300)
  t.match(silent.lines, ['fail identity provider: no answer within 0.3 s'])
  t.equal(silent.findings[0]?.unreachable, true)
})

t.test('keys that cannot be had', async (t) => {
  const provider = await start(t)
  const { issuer } = provider
  const json = { 'content-type': 'application/json' }
  provider.before = (path, res, goOn) =>
    void (path === '/jwks' ? res.writeHead(200, json).end('{"keys":[{"use":"enc"}]}') : goOn())
  t.match((await examine({ oidc: { issuer, ...own } })).lines[2], /^fail .* keys: .*no key/)
  provider.before = (path, res, goOn) => void (path === '/jwks' ? res.writeHead(403).end() : goOn())
  t.match((await examine({ oidc: { issuer, ...own } })).lines[2], /^fail .* keys: 403 for/)
})

t.test('what a description may lack', async (t) => {
  const { oidc } = z
    .strictObject(portalSettings.shape)
    .parse({ oidc: { issuer: 'https://id.example.com', ...own, scopes: ['email', 'x'] } })
  if (!oidc) throw new Error('no settings')
  const good = {
    issuer: 'https://id.example.com',
    authorization_endpoint: 'https://id.example.com/auth',
    token_endpoint: 'https://id.example.com/token',
    jwks_uri: 'https://id.example.com/jwks',
  }
  const judge = (more: object) => judgeAbilities({ ...good, ...more } as never, oidc)
  t.equal(judge({}).verdict, 'ok', 'what is not listed may be there')
  t.match(judge({ token_endpoint: 'http://id.example.com/token' }), {
    verdict: 'fail',
    detail: /token_endpoint is not https/,
  })
  t.match(judge({ jwks_uri: undefined }), { verdict: 'fail', detail: /jwks_uri is missing/ })
  t.match(judge({ response_types_supported: ['id_token'] }), { verdict: 'fail' })
  t.match(
    judge({
      scopes_supported: ['openid', 'email'],
      code_challenge_methods_supported: ['plain'],
      token_endpoint_auth_methods_supported: ['client_secret_basic'],
    }),
    {
      verdict: 'warn',
      detail: 'its description does not list PKCE with S256, client_secret_post, scope x',
    },
  )
})
