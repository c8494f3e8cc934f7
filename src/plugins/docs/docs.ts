// /openapi.json: the routes of the plugins that are on, made once for each configuration. /docs: a page that renders it,
// Swagger UI of the npm package, served from here: the page loads nothing from anywhere else. Both need no key, and name
// no model, plan or account.

import { join } from 'node:path'
import { noKeys } from '../../config/schema.ts'
import { answering } from '../../exchange.ts'
import type { Answer, Exchange, Route } from '../../exchange.ts'
import { assetAnswer, assetOf, createAssets, packageFile } from '../../http/assets.ts'
import { openapi } from '../../openapi/document.ts'
import type { Plugin } from '../../plugin.ts'
import { cookieName } from '../../portal/cookie.ts'
import { pageOrigin } from '../../portal/settings.ts'

const own = (name: string) => [name, join(import.meta.dirname, name)] as const
const ofViewer = (name: string) => [name, packageFile('swagger-ui-dist', name)] as const
const asset = createAssets(
  new Map([
    ...['page.html', 'page.js'].map(own),
    ...['swagger-ui-bundle.js', 'swagger-ui.css'].map(ofViewer),
  ]),
)
const page = async (x: Exchange, name: string) => guarded(await asset(x, name))

export const docs: Plugin = {
  name: 'docs',
  schema: noKeys.describe('`/openapi.json`, and the page `/docs` that shows it.'),
  async setup({ config }) {
    const cookie = cookieName('tollgate', pageOrigin(config).isSecure)
    const text = JSON.stringify(openapi((plugin) => config.plugins.has(plugin), cookie))
    const document = await assetOf(Buffer.from(text), 'application/json')
    return {
      routes: [
        route('/openapi.json', async (x) => assetAnswer(x, document)),
        route('/docs', (x) => page(x, 'page.html')),
        route('/docs/:file', (x) => page(x, x.params['file'] ?? '')),
      ],
    }
  },
}

function route(path: string, serve: (x: Exchange) => Promise<Answer>): Route {
  return { method: 'GET', path, access: 'anybody', body: 'none', begin: answering(serve) }
}

/** Scripts, styles and requests of this origin only. Swagger UI has its icons as data URLs. */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

function guarded(answer: Answer): Answer {
  const guards = {
    'Content-Security-Policy': policy,
    'X-Content-Type-Options': 'nosniff',
    'Cross-Origin-Resource-Policy': 'same-origin',
    'Referrer-Policy': 'no-referrer',
  }
  return { ...answer, headers: { ...answer.headers, ...guards } }
}
