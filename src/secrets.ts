// What the log must never have: the secrets of a configuration, of all its parts. Those of a request's own are hidden where
// they arrive; the operator's own plugins' are not known here.

import { accountSettings } from './accounts/api-key.ts'
import { secretsOfTarget } from './backend/secrets.ts'
import type { Config } from './config/config.ts'
import { portalSettings } from './portal/settings.ts'
import { storeSecrets } from './store/drivers.ts'

/** The texts that must never be logged. */
export function secretsOf(config: Config): string[] {
  const { models, admin, redis, store } = config
  const targets = [...models.values()].flatMap((model) => model.targets)
  const { pepper } = accountSettings.of(config)
  const ofLogin = portalSettings.of(config).oidc?.client_secret ?? ''
  const ours = [admin.token, pepper, ofLogin, ...secretsOfRedis(redis), ...storeSecrets(store)]
  return [...ours, ...targets.flatMap(secretsOfTarget)].filter((secret) => secret !== '')
}

function secretsOfRedis(redis: Config['redis']): string[] {
  if (redis.kind === 'embedded') return []
  const ofSentinels = redis.kind === 'sentinel' ? redis.sentinelPassword : undefined
  return [redis.password ?? '', ofSentinels ?? '']
}
