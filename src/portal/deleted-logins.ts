// Deleted accounts of log-ins, remembered for a time: without this, whoever has the account deleted and logs in again
// would be given the starting balance and the allowance of the window once more, as often as that is done. It keeps
// numbers, and an HMAC that nobody can undo without the admin token; no name, and not which account it was.

import { createHmac } from 'node:crypto'
import type { Config } from '../config/config.ts'
import { asked } from '../redis/asked.ts'
import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'
import { issuerPart, portalSettings } from './settings.ts'

export interface DeletedLoginsParts {
  readonly config: Pick<Config, 'admin' | 'plugins'>
  readonly redis: { readonly client: Redis }
}

export type DeletedLogins = ReturnType<typeof createDeletedLogins>

export function createDeletedLogins({ config, redis: { client } }: DeletedLoginsParts) {
  const { oidc } = portalSettings.of(config)
  const nameOf = (externalId: string) =>
    keys.deletedLogin(
      createHmac('sha256', config.admin.token)
        .update(`deleted-login\n${externalId}`)
        .digest('base64url'),
    )
  return {
    /** To be called while the account has its names, and its books are closed. Accounts that no log-in reaches are not remembered. */
    async remember(ref: string): Promise<void> {
      if (!oidc || oidc.remember_deleted === 0) return
      const [externalId, allowance] = await asked(
        client.hmget(keys.account(ref), 'external_id', 'allowance'),
      )
      if (!externalId?.startsWith(issuerPart(oidc))) return
      await asked(client.set(nameOf(externalId), allowance ?? '', 'PX', oidc.remember_deleted))
    },
    /** What the last deleted account of a log-in had of its allowance, '' without one; undefined if none was deleted. */
    async recall(externalId: string): Promise<string | undefined> {
      return (await asked(client.get(nameOf(externalId)))) ?? undefined
    },
  }
}
