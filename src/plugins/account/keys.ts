// A customer's own keys: list, create, rename, revoke, rotate; and a key of the playground. What a key may have is what
// the account's plan has. A key of another account is not found.

import { newKeySeed } from '../../accounts/account-keys.ts'
import { accountSettings } from '../../accounts/api-key.ts'
import {
  creation,
  keyPage,
  refuseBeyondPlan,
  renaming,
  rotation,
  toKeyFields,
} from '../../accounts/key-fields.ts'
import { withKeyRoom } from '../../accounts/key-room.ts'
import { once } from '../../accounts/once.ts'
import { planNamed } from '../../accounts/plan.ts'
import { createRate } from '../../accounts/rate.ts'
import type { Levels } from '../../accounts/rate.ts'
import { GatewayError } from '../../errors.ts'
import { json } from '../../exchange.ts'
import type { Exchange, Route } from '../../exchange.ts'
import { parseFields } from '../../http/fields.ts'
import { pageQuery, parseIdPage } from '../../http/page.ts'
import { keptThroughReloads } from '../../kept-through-reloads.ts'
import type { Gateway } from '../../plugin.ts'
import { createPageKeys } from '../../portal/page-keys.ts'
import type { Login } from '../../portal/portal.ts'
import { portalSettings } from '../../portal/settings.ts'
import type { PageRoute } from './access.ts'

const counted = keptThroughReloads(() => ({ pageKeys: new Map() satisfies Levels }))

export function keyRoutes(gateway: Gateway, route: PageRoute): readonly Route[] {
  const { accounts, config } = gateway
  const { max_keys: most, max_logins: mostLogins } = portalSettings.of(config)
  const { pepper } = accountSettings.of(config)
  // A tab takes one key an hour. A further key ends the oldest, so whoever makes many a minute would keep others out.
  const mostPageKeys = Math.ceil(mostLogins / 2)
  const makePageKey = createPageKeys(gateway.redis, { pepper, most: mostPageKeys })
  const pageKeys = createRate(mostPageKeys, counted(gateway).pageKeys)
  const ownKey = async ({ params }: Exchange, { ref }: Login) => {
    const id = params.id ?? ''
    if ((await accounts.getKeyRef(id)) !== ref) throw new GatewayError('key_not_found')
    return id
  }
  return [
    route(
      'GET keys',
      async (x, { ref }) =>
        json(keyPage(await accounts.listKeys(ref), parseIdPage(x.query, 'key'))),
      pageQuery,
    ),
    route('POST keys', async (x, login) => {
      const { ref } = login
      const given = toKeyFields(parseFields(x.body, creation), config)
      refuseBeyondPlan(given, planNamed(config, login.plan))
      return once(gateway, x, {
        seed: newKeySeed(ref),
        create: (seed) =>
          withKeyRoom(accounts, login.ref, () => accounts.createKey(ref, given, seed, most)),
      })
    }),
    route('PATCH keys/:id', async (x, login) => {
      const change = parseFields(x.body, renaming)
      return json(await accounts.setKey(await ownKey(x, login), change))
    }),
    route('DELETE keys/:id', async (x, login) =>
      json(await accounts.revokeKey(await ownKey(x, login))),
    ),
    route('POST keys/:id/rotate', async (x, login) => {
      const { grace } = parseFields(x.body, rotation)
      const id = await ownKey(x, login)
      return once(gateway, x, {
        seed: newKeySeed(login.ref),
        create: (seed) =>
          withKeyRoom(accounts, login.ref, () => accounts.rotateKey(id, grace, seed, most)),
      })
    }),
    route('POST playground-key', async (_x, login) => {
      pageKeys.take(login.ref, 'Too many keys of the playground.')
      return json(await makePageKey(login), 201)
    }),
  ]
}
