// Who may call the API of the account page: a browser with a cookie, from the page itself. A call that changes anything
// must be JSON and come from the page's own origin, so that no other site can make one. Keys are never looked at here.

import type { IncomingHttpHeaders } from 'node:http'
import { createRate, createGuard } from '../../accounts/rate.ts'
import type { Levels } from '../../accounts/rate.ts'
import { GatewayError } from '../../errors.ts'
import type { Answer, Exchange, Route, Serving } from '../../exchange.ts'
import { isJsonType } from '../../http/body.ts'
import { keptThroughReloads } from '../../kept-through-reloads.ts'
import type { Gateway } from '../../plugin.ts'
import { cookieName, readCookie } from '../../portal/cookie.ts'
import type { Login, Portal } from '../../portal/portal.ts'
import { entryOf } from '../../portal/secrets.ts'
import { pageOrigin, portalSettings } from '../../portal/settings.ts'
import { protect } from './headers.ts'

type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** A route for those who are logged in. */
export type PageRoute = (
  line: `${Method} ${string}`,
  serve: (x: Exchange, login: Login) => Promise<Answer>,
  query?: readonly string[],
) => Route

export type Access = ReturnType<typeof createAccess>

const maxBytes = 16 * 1024
/** Requests a minute of one account, in this process. A view of the page makes about six. */
const requestsPerMinute = 600

/** A reload gives nobody new tries. */
const counted = keptThroughReloads(() => ({
  failed: new Map() satisfies Levels,
  requests: new Map() satisfies Levels,
}))

export function createAccess(gateway: Gateway, portal: Portal) {
  const { failures_per_minute_per_ip: failuresPerMinute } = portalSettings.of(gateway.config)
  const page = pageOrigin(gateway.config)
  const { failed, requests } = counted(gateway)
  const guard = createGuard(failuresPerMinute, {
    what: 'Too many wrong links or cookies from this address.',
    levels: failed,
  })
  const rate = createRate(requestsPerMinute, requests)
  const cookieOf = ({ cookie }: IncomingHttpHeaders, base = 'tollgate') =>
    readCookie(cookie, cookieName(base, page.isSecure))
  /** Counts a wrong secret. Returns the error to answer instead, when the address has sent too many. */
  const refuse = (x: Exchange, { code }: GatewayError) =>
    counts.has(code) ? guard(x.ip) : undefined
  const look = async (x: Exchange): Promise<Login> => {
    const login = await portal.look(entryOf(cookieOf(x.headers) ?? ''))
    rate.take(login.ref, 'Too many requests of the account page.')
    x.caller = { ref: login.ref, hmac: login.hash, scope: '' }
    x.identity = { keyId: '', accountId: login.accountId, plan: login.plan }
    return login
  }
  const route: PageRoute = (line, serve, query = []) => {
    const [method = '', path = ''] = line.split(' ')
    const hasBody = method === 'POST' || method === 'PATCH'
    return {
      method: method as Method,
      path: `/account/api/${path}`,
      access: 'cookie',
      query,
      ...(hasBody ? { body: 'json', maxBytes } : { body: 'none' }),
      begin(x): Serving {
        let looking: Promise<Login> | undefined
        const known = () => (looking ??= look(x))
        const isKnown = async () => void (await known())
        return {
          check() {
            protect(x)
            refuseOtherSites(x, page.isOwn)
            if (cookieOf(x.headers) === undefined) throw new GatewayError('not_logged_in')
          },
          vouch: isKnown,
          identify: isKnown,
          refuse: (error) => (looking ? refuse(x, error) : undefined),
          serve: async () => serve(x, await known()),
        }
      },
    }
  }
  return { page, cookieOf, refuse, route }
}

const counts: ReadonlySet<string> = new Set(['not_logged_in', 'invalid_link'])

/** A form of another site can't send JSON, and a script of another site can't without a preflight, which is not answered for it. Each check alone would do. */
export function refuseOtherSites(
  { method, headers }: Pick<Exchange, 'method' | 'headers'>,
  isOwn: (origin: string | undefined, host: string | undefined) => boolean,
): void {
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin' && site !== 'none') throw notTheSite()
  if (method === 'GET' || method === 'HEAD') return
  if (!isOwn(headers.origin, headers.host)) throw notTheSite()
  if (!isJsonType(headers['content-type'])) throw new GatewayError('unsupported_media_type')
}

function notTheSite(): GatewayError {
  return new GatewayError('origin_not_allowed', {
    message:
      'Only the account page itself may call this. If this is the page, its address must be that of plugins.account.url.',
  })
}
