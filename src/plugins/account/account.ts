// The account page under /account: its files, and the API that they call with a cookie. What the page shows and changes
// is done by the same parts as the public API. Who gets in is decided in portal/.

import { z } from '../../config/schema.ts'
import type { Plugin } from '../../plugin.ts'
import { createPortal } from '../../portal/portal.ts'
import { createProvider } from '../../portal/provider.ts'
import { portalSettings } from '../../portal/settings.ts'
import { createAccess } from './access.ts'
import { assetRoutes } from './assets.ts'
import { entryRoutes, linkRoute } from './entry.ts'
import { keyRoutes } from './keys.ts'
import { moneyRoutes } from './money.ts'
import { oidcRoutes } from './oidc.ts'

const schema = z.strictObject(portalSettings.shape)

export const account: Plugin<z.infer<typeof schema>> = {
  name: 'account',
  schema: schema.describe(
    'The page on which customers manage keys and see their usage, under `/account`.',
  ),
  setup(gateway, { oidc, max_logins: mostLogins }) {
    if (oidc && !gateway.config.plans.has(oidc.plan)) {
      throw new Error(`oidc.plan: there is no plan ${JSON.stringify(oidc.plan)}`)
    }
    const portal = createPortal(gateway.redis, mostLogins)
    const access = createAccess(gateway, portal)
    const provider = oidc && createProvider(oidc)
    const parts = { gateway, portal, access, provider }
    return {
      routes: [
        ...assetRoutes(),
        ...entryRoutes(parts),
        ...keyRoutes(gateway, access.route),
        ...moneyRoutes(gateway, access.route),
        ...(oidc && provider ? oidcRoutes({ ...parts, provider, settings: oidc }) : []),
        // The plugin `admin` checks the token of this route.
        ...(gateway.config.plugins.has('admin') ? [linkRoute(parts)] : []),
      ],
    }
  },
}
