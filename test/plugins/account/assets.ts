import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import t from 'tap'
import { startPortal } from '../../fixtures/account-page.ts'
import { codeOf } from '../../fixtures/gateway.ts'
import { filesIn } from '../../fixtures/source.ts'

const index = readFileSync(
  new URL('../../../src/plugins/account/page/index.html', import.meta.url),
  'utf8',
)

t.test('the page is served with its policy, and again only if it has changed', async (t) => {
  const { page } = await startPortal(t)
  const answer = await page('/account')
  t.equal(await answer.text(), index)
  t.match(Object.fromEntries(answer.headers), {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy':
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    'x-content-type-options': 'nosniff',
    'referrer-policy': 'no-referrer',
    'cross-origin-opener-policy': 'same-origin',
    'cache-control': 'no-cache',
    etag: /^W\/"[0-9a-f]{32}"$/,
  })
  const etag = answer.headers.get('etag') ?? ''
  const again = await page('/account', { headers: { 'if-none-match': `"x", ${etag}` } })
  t.equal(again.status, 304)
  t.equal(await again.text(), '')
  t.equal((await page('/account', { headers: { 'if-none-match': '"x"' } })).status, 200)
  t.equal(await (await page('/account/index.html')).text(), index)
})

t.test('no path leads to another file', async (t) => {
  const { url } = await startPortal(t)
  const { port } = new URL(url)
  for (const path of [
    '/account/../../../../etc/passwd',
    '/account/..%2faccount.ts',
    '/account/%2e%2e/account.ts',
    '/account/..\\account.ts',
    '/account//index.html',
    '/account/',
    '/account/index.html%00',
    '/account/tsconfig.json',
    '/account/packages/uplot',
    '/account/packages/../packages/uplot.js',
    '/account/INDEX.HTML',
    '/account/__proto__',
    '/account/constructor',
    '/account/api/nothing',
    '/accounts',
  ]) {
    const socket = connect(Number(port), '127.0.0.1')
    socket.end(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nConnection: close\r\n\r\n`)
    const text = Buffer.concat(await socket.toArray()).toString()
    t.match(text, /^HTTP\/1\.1 404 [^]*"route_not_found"/, path)
  }
})

t.test('the browser is told of every module at once, and each is there', async (t) => {
  const { page } = await startPortal(t)
  const told = [...index.matchAll(/(?:href|src)="(\/account\/[^"]+)"/g)].map(
    ([, path = '']) => path,
  )
  for (const path of told) t.equal((await page(path)).status, 200, path)
  const files = filesIn('src/plugins/account/page', '.js').filter((name) => name !== 'shapes.js')
  t.same(
    told
      .filter((path) => path.endsWith('.js'))
      .map((path) => path.slice('/account/'.length))
      .toSorted(),
    files,
  )
})

t.test('switched off, nothing of it is there', async (t) => {
  const { page, admin } = await startPortal(t, { account: 'false' })
  for (const path of ['/account', '/account/index.html', '/account/api/config', '/account/api/me'])
    t.equal(await codeOf(await page(path)), 'route_not_found', path)
  t.equal((await admin('POST', 'accounts/a/portal', {})).status, 404)
})
