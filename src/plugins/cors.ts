// Lets web pages of the configured origins read answers. Off (OPTIONS is 405) until an origin is listed.

import { z } from '../config/schema.ts'
import { answering } from '../exchange.ts'
import type { Exchange, Route } from '../exchange.ts'
import type { Plugin } from '../plugin.ts'

const schema = z.strictObject({
  origins: z
    .array(z.string())
    .default([])
    .describe('Origins such as `https://app.example.com`; `*` allows every page. Empty: off.'),
})

/** Every header of docs/api.md#response-headers that a page may want to read. */
const exposed = [
  'X-Request-Id',
  'X-Client-Request-Id',
  'X-Message-Id',
  'X-User-Message-Id',
  'X-Should-Retry',
  'Idempotent-Replayed',
  'Location',
  'Content-Location',
  'Content-Disposition',
  'Accept-Ranges',
  'Content-Range',
  'ETag',
  'Repr-Digest',
  'Allow',
  'WWW-Authenticate',
  'Retry-After',
  'retry-after-ms',
  'openai-processing-ms',
  'openai-version',
  'x-tollgate-balance-low',
  ...['limit', 'remaining', 'reset'].flatMap((what) => [
    `x-ratelimit-${what}-requests`,
    `x-ratelimit-${what}-tokens`,
  ]),
].join(', ')

const preflight: Route = {
  method: 'OPTIONS',
  path: '/*',
  access: 'anybody',
  body: 'none',
  begin: answering(async (x) => {
    const headers = {
      'Access-Control-Allow-Methods': 'GET, HEAD, POST, PATCH, DELETE',
      'Access-Control-Allow-Headers':
        x.headers['access-control-request-headers'] ?? 'authorization, content-type',
      'Access-Control-Max-Age': '7200',
    }
    return { status: 204, headers, body: '' }
  }),
}

export const cors: Plugin<z.infer<typeof schema>> = {
  name: 'cors',
  schema: schema.describe(
    'Lets web pages of other origins call the gateway; off until `origins` are listed.',
  ),
  setup(_gateway, { origins }) {
    if (origins.length === 0) return {}
    const allowed = new Set(origins)
    return {
      routes: [preflight],
      begin(x) {
        return { check: () => allow(x, allowed) }
      },
    }
  },
}

function allow(x: Exchange, allowed: ReadonlySet<string>): void {
  // The account page is called by itself alone.
  const isOfPage = x.path === '/account' || x.path.startsWith('/account/')
  if (x.route.listener === 'admin' || isOfPage) return
  const origin = x.headers.origin
  x.replyHeaders.Vary = 'Origin'
  if (!origin || !(allowed.has('*') || allowed.has(origin))) return
  x.replyHeaders['Access-Control-Allow-Origin'] = allowed.has('*') ? '*' : origin
  x.replyHeaders['Access-Control-Expose-Headers'] = exposed
}
