// API keys over HTTP: create, list, change, revoke, rotate. A key's text is in the answer that creates it and nowhere else.

import { z } from '../../config/schema.ts'
import type { Gateway } from '../../plugin.ts'
import { parseFields } from '../../http/fields.ts'
import { pageQuery, parseIdPage } from '../../http/page.ts'
import { newKeySeed } from '../../accounts/account-keys.ts'
import { budget, creation, keyPage, rotation, toKeyFields } from '../../accounts/key-fields.ts'
import { once } from '../../accounts/once.ts'
import { json } from '../../exchange.ts'
import type { Route } from '../../exchange.ts'
import { operatorTurn } from '../../sharing/fair-turns.ts'
import { accountIn, idOf, noteKey, route } from './route.ts'

export const change = z.strictObject({ budget: budget.nullable() })

export const lookUp = z.strictObject({ key: z.string({ error: 'write the key' }) })

export function keyRoutes(gateway: Gateway): readonly Route[] {
  const { accounts, config } = gateway
  return [
    route('POST', 'accounts/:id/keys', async (x) => {
      const given = toKeyFields(parseFields(x.body, creation), config)
      const { ref } = await accountIn(gateway, x)
      return once(gateway, x, {
        seed: newKeySeed(ref),
        create: async (seed) => noteKey(x, await accounts.createKey(ref, given, seed)),
      })
    }),
    route(
      'GET',
      'accounts/:id/keys',
      async (x) => {
        const { ref } = await accountIn(gateway, x)
        const keys = await accounts.listKeys(ref, operatorTurn)
        return json(keyPage(keys, parseIdPage(x.query, 'key')))
      },
      pageQuery,
    ),
    // The key comes in a body, because a URL with a key in it would end up in logs.
    route('POST', 'keys/find', async (x) =>
      json(noteKey(x, await accounts.findKey(parseFields(x.body, lookUp).key))),
    ),
    route('PATCH', 'keys/:id', async (x) =>
      json(noteKey(x, await accounts.setKey(idOf(x), parseFields(x.body, change)))),
    ),
    route('DELETE', 'keys/:id', async (x) => json(noteKey(x, await accounts.revokeKey(idOf(x))))),
    route('POST', 'keys/:id/rotate', async (x) => {
      const { grace } = parseFields(x.body, rotation)
      const ref = await accounts.getKeyRef(idOf(x))
      noteKey(x, { id: idOf(x) })
      return once(gateway, x, {
        seed: newKeySeed(ref),
        create: (seed) => accounts.rotateKey(idOf(x), grace, seed),
      })
    }),
  ]
}
