// API keys over HTTP: create, list, revoke, rotate. A key's text is in the answer that creates it and nowhere else.

import { z } from '../../config/schema.ts'
import type { Config } from '../../config/config.ts'
import type { Gateway } from '../../plugin.ts'
import { invalid, parseFields } from '../../http/fields.ts'
import { listOf, pageQuery, parseIdPage } from '../../http/page.ts'
import type { List, Page } from '../../http/page.ts'
import { allScopes, newKeySeed } from '../../accounts/account-keys.ts'
import type { ApiKey } from '../../accounts/account-keys.ts'
import { json } from '../../exchange.ts'
import type { Route } from '../../exchange.ts'
import { once } from './once.ts'
import { idOf, printable, route } from './route.ts'

const scope = z.enum(allScopes, { error: `write ${allScopes.join(', ')}` })
const list = <T extends z.ZodType>(item: T) =>
  z.array(item, { error: 'write a list' }).min(1, { error: 'write at least one' }).max(100)
const positive = z.int({ error: 'write a whole number' }).min(1, { error: 'write at least 1' })

export const creation = z.strictObject({
  name: printable(200).optional(),
  scopes: list(scope).optional(),
  models: list(z.string()).optional(),
  expires_at: positive.nullable().optional(),
  limits: z
    .strictObject({
      requests_per_minute: positive.optional(),
      tokens_per_minute: positive.optional(),
      concurrency: positive.optional(),
    })
    .optional(),
})

const longestGraceS = 30 * 24 * 3600
export const rotation = z.strictObject({
  grace: z
    .int({ error: 'write whole seconds' })
    .min(0, { error: 'write seconds, 0 or more' })
    .max(longestGraceS, { error: 'write at most 30 days, in seconds' })
    .default(0),
})

export const lookUp = z.strictObject({ key: z.string({ error: 'write the key' }) })

export function keyRoutes(gateway: Gateway): readonly Route[] {
  const { accounts, config } = gateway
  return [
    route('POST', 'accounts/:id/keys', async (x) => {
      const { name, scopes, models, expires_at: expiresAt, limits } = parseFields(x.body, creation)
      if (expiresAt && expiresAt * 1000 <= Date.now())
        throw invalid('expires_at', 'write a time in the future')
      const given = {
        name,
        scopes: scopes && [...new Set(scopes)],
        models: models && namesOf(models, config),
        expiresAt,
        limits,
      }
      const { ref } = await accounts.getAccount(idOf(x))
      return once(gateway, x, {
        seed: newKeySeed(ref),
        create: (seed) => accounts.createKey(ref, given, seed),
      })
    }),
    route(
      'GET',
      'accounts/:id/keys',
      async (x) => {
        const { ref } = await accounts.getAccount(idOf(x))
        return json(pageOf(await accounts.listKeys(ref), parseIdPage(x.query, 'key')))
      },
      pageQuery,
    ),
    // The key comes in a body, because a URL with a key in it would end up in logs.
    route('POST', 'keys/find', async (x) =>
      json(await accounts.findKey(parseFields(x.body, lookUp).key)),
    ),
    route('DELETE', 'keys/:id', async (x) => json(await accounts.revokeKey(idOf(x)))),
    route('POST', 'keys/:id/rotate', async (x) => {
      const { grace } = parseFields(x.body, rotation)
      const ref = await accounts.getKeyRef(idOf(x))
      return once(gateway, x, {
        seed: newKeySeed(ref),
        create: (seed) => accounts.rotateKey(idOf(x), grace, seed),
      })
    }),
  ]
}

/** Replaces aliases by the ids of their models, because the scripts compare only ids. */
function namesOf(names: readonly string[], { models }: Config): readonly string[] {
  const ids = names.map((name) => {
    if (name === '*' || models.has(name)) return name
    const found = [...models.values()].find(({ aliases }) => aliases.includes(name))
    if (!found) throw invalid('models', `there is no model ${JSON.stringify(name)}`)
    return found.id
  })
  return [...new Set(ids)]
}

/** Cuts one page out of all keys of an account, which has few. `keys` has the oldest first. */
function pageOf(keys: readonly ApiKey[], { limit, after, before, order }: Page): List<ApiKey> {
  const isUpwards = order === 'asc'
  const sorted = isUpwards ? keys : keys.toReversed()
  const follows = (a: string, b: string) => (isUpwards ? a > b : a < b)
  if (before !== undefined) {
    const rows = sorted.filter(({ id }) => follows(before, id))
    return listOf(rows.slice(-limit), rows.length > limit)
  }
  const rows = after === undefined ? sorted : sorted.filter(({ id }) => follows(id, after))
  return listOf(rows.slice(0, limit), rows.length > limit)
}
