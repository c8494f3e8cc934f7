// In and out: the log-in with a portal link, the log-out, who is in, and the operator's call that makes a link. The
// link's secret stands behind the `#` of the address, which browsers send to nobody; the page sends it in a body.

import { json } from '../../exchange.ts'
import type { Route, Serving } from '../../exchange.ts'
import { z } from '../../config/schema.ts'
import { parseFields } from '../../http/fields.ts'
import { invalid } from '../../http/refusals.ts'
import { isLow } from '../../accounts/low-balance.ts'
import { mayUse } from '../../accounts/plan.ts'
import { showModel } from '../../ledger/price.ts'
import type { Gateway } from '../../plugin.ts'
import { setCookie } from '../../portal/cookie.ts'
import type { Login, Portal } from '../../portal/portal.ts'
import type { Provider } from '../../portal/provider.ts'
import { entering, entryOf } from '../../portal/secrets.ts'
import { portalSettings, returnUrl } from '../../portal/settings.ts'
import { keys } from '../../redis/keys.ts'
import { asked } from '../../redis/asked.ts'
import { refuseOtherSites } from './access.ts'
import type { Access } from './access.ts'
import { protect } from './headers.ts'

export const linking = z.strictObject({
  return_url: z.string({ error: 'write a URL' }).optional(),
})

const maxBytes = 4096

export interface EntryParts {
  readonly gateway: Gateway
  readonly portal: Portal
  readonly access: Access
  /** Where people without a link log in. */
  readonly provider?: Provider | undefined
}

export function entryRoutes(parts: EntryParts): readonly Route[] {
  const { gateway, portal, access, provider } = parts
  const { route, page } = access
  // If the provider is away, the log-out happens all the same.
  const endUrl = async ({ via }: Login) =>
    via === 'oidc' ? await provider?.endUrl(`${page.origin}/account`).catch(() => null) : null
  const off = setCookie('tollgate', '', { ...page, seconds: 0 })
  return [
    {
      method: 'GET',
      path: '/account/api/config',
      access: 'anybody',
      body: 'none',
      begin: (x): Serving => ({ check: () => protect(x), serve: async () => json(shown(gateway)) }),
    },
    loginRoute(parts),
    route('GET me', async (_x, login) => json(await me(gateway, login))),
    route('POST logout', async (_x, login) => {
      await portal.leave(login)
      const url = (await endUrl(login)) ?? null
      return json({ object: 'account.logout', url }, 200, { 'Set-Cookie': off })
    }),
  ]
}

function loginRoute({ portal, access }: EntryParts): Route {
  const { page, refuse, cookieOf } = access
  return {
    method: 'POST',
    path: '/account/api/login',
    access: 'anybody',
    body: 'json',
    maxBytes,
    begin: (x): Serving => ({
      check() {
        protect(x)
        refuseOtherSites(x, page.isOwn)
      },
      refuse: (error) => refuse(x, error),
      async serve() {
        const { link } = parseFields(x.body, entering)
        const before = cookieOf(x.headers)
        const { secret, accountId } = await portal.enter(link)
        // The new cookie replaces the old one in the browser. So the old log-in is ended: nobody else should be able to
        // use it.
        if (before !== undefined) await portal.leave(entryOf(before))
        const headers = { 'Set-Cookie': setCookie('tollgate', secret, page) }
        return json({ object: 'account.login', account_id: accountId }, 200, headers)
      },
    }),
  }
}

/** `POST /admin/accounts/:id/portal`. */
export function linkRoute({ gateway, portal, access }: EntryParts): Route {
  return {
    method: 'POST',
    path: '/admin/accounts/:id/portal',
    listener: 'admin',
    access: 'admin-token',
    body: 'json',
    maxBytes,
    begin: (x): Serving => ({
      async serve() {
        const { return_url } = parseFields(x.body, linking)
        const back = return_url === undefined ? '' : returnUrl(gateway.config, return_url)
        if (back === undefined) {
          throw invalid('return_url', 'must be a URL of an origin in plugins.account.return_urls')
        }
        const { ref, account } = await gateway.accounts.getAccount(x.params.id ?? '')
        x.facts.accountId = account.id
        const { secret, expiresAt } = await portal.makeLink(ref, back)
        const url = `${access.page.origin}/account#link=${secret}`
        return json({ object: 'account.portal_link', url, expires_at: expiresAt }, 201)
      },
    }),
  }
}

/** For the screen of those who are not logged in. */
function shown({ config }: Gateway) {
  const { oidc } = portalSettings.of(config)
  return {
    object: 'account.config',
    oidc: oidc ? { label: oidc.label, start: '/account/oidc/start' } : null,
  }
}

async function me({ config, ledger, redis }: Gateway, login: Login) {
  const { ref, accountId, name, plan, via, returnUrl: return_url } = login
  const { currency = null } = portalSettings.of(config)
  const [{ available }, pageKey] = await Promise.all([
    ledger.balance(ref),
    asked(redis.client.hget(keys.account(ref), 'page_key')),
  ])
  const models = [...config.models.values()].filter(
    (model) => model.endpoints.includes('chat') && mayUse({ plan, models: ['*'] }, model, config),
  )
  return {
    object: 'account.me',
    id: accountId,
    name,
    plan,
    status: 'active',
    currency,
    low_balance: isLow(config, available),
    return_url,
    models: models.map((model) => ({ id: model.id, ...showModel(model) })),
    login: via,
    playground_key_id: pageKey,
  }
}
