// What the document says is tested by test/openapi/document.ts; the page in a browser by test/journeys/docs-page.ts.

import t from 'tap'
import { openapi } from '../../../src/openapi/document.ts'
import { codeOf, send, startGateway } from '../../fixtures/gateway.ts'

const yaml = `
models:
  zebra-name: { aliases: [zebra-alias], targets: [{ url: 'http://127.0.0.1:1/v1', model: zebra-target }] }
plans: { zebra-plan: {} }
`

/** Loads something from another host. */
const elsewhere = /(?:src|href)="(?:https?:)?\/\/|url\(["']?(?:https?:)?\/\/|@import/

t.test('anybody gets the document, and it names nothing that is configured', async (t) => {
  const { url } = await startGateway(t, { yaml })
  const answer = await send(`${url}/openapi.json`, {})
  t.equal(answer.status, 200)
  t.equal(answer.headers.get('content-type'), 'application/json')
  const text = await answer.text()
  t.strictSame(JSON.parse(text), JSON.parse(JSON.stringify(openapi(() => true, 'tollgate'))))
  t.notMatch(text, 'zebra')
  t.notMatch(text, '127.0.0.1')
})

t.test('who has it already gets 304, until it is another one', async (t) => {
  const { url, rewrite, gateway } = await startGateway(t, { yaml })
  const ask = (tag: string) => send(`${url}/openapi.json`, { headers: { 'if-none-match': tag } })
  const tag = (await send(`${url}/openapi.json`, {})).headers.get('etag') ?? ''
  const known = await ask(tag)
  t.equal(known.status, 304)
  t.equal(await known.text(), '')
  await rewrite(`${yaml}\nplugins: { billing: false }`)
  await gateway.reload('test')
  const fresh = await ask(tag)
  t.equal(fresh.status, 200)
  t.notMatch(await fresh.text(), '/api/billing')
})

t.test('the page and its files come with guards, and with nothing else of the disk', async (t) => {
  const { url } = await startGateway(t, { yaml })
  for (const path of [
    '/docs',
    '/docs/page.js',
    '/docs/swagger-ui-bundle.js',
    '/docs/swagger-ui.css',
  ]) {
    const answer = await send(url + path, {})
    t.equal(answer.status, 200, path)
    const policy = answer.headers.get('content-security-policy') ?? ''
    t.match(policy, /default-src 'none'.*script-src 'self';.*frame-ancestors 'none'/)
    t.notMatch(policy, /https?:|\*/, 'no other host')
    t.equal(answer.headers.get('x-content-type-options'), 'nosniff')
    const text = await answer.text()
    if (path !== '/docs/swagger-ui-bundle.js') t.notMatch(text, elsewhere, path)
    const head = await send(url + path, { method: 'HEAD' })
    t.equal(head.status, 200)
    t.equal(await head.text(), '')
  }
  const outside = ['index.html', 'docs.ts', '..%2Fmodels.ts', '%2e%2e%2fpackage.json', 'a/b', '']
  for (const name of outside) {
    const answer = await send(`${url}/docs/${name}`, {})
    t.equal(answer.status, 404, name)
    t.equal(await codeOf(answer), 'route_not_found')
  }
})

t.test('switched off, none of it is there', async (t) => {
  const { url } = await startGateway(t, { yaml: `${yaml}\nplugins: { docs: false }` })
  for (const path of ['/openapi.json', '/docs', '/docs/page.js']) {
    t.equal((await send(url + path, {})).status, 404, path)
  }
})
