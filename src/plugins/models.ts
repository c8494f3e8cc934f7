// GET /v1/models: the configured models that the caller's key and plan may use, in OpenAI's list shape.

import { noKeys } from '../config/schema.ts'
import { GatewayError } from '../errors.ts'
import { answering, json } from '../exchange.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway, Plugin } from '../plugin.ts'
import { mayUse } from '../accounts/plan.ts'

export const models: Plugin = {
  name: 'models',
  schema: noKeys,
  setup(gateway) {
    const created = Math.floor(Date.now() / 1000)
    const shape = (id: string) => ({ id, object: 'model', created, owned_by: 'tollgate' })
    return {
      routes: [
        {
          method: 'GET',
          path: '/v1/models',
          access: 'any-key',
          body: 'none',
          begin: answering(async (x) =>
            json({ object: 'list', data: namesFor(gateway, x).map(shape) }),
          ),
        },
        {
          // Ids may hold slashes (`meta-llama/Llama-3`), which the official SDKs send unescaped or as %2F.
          method: 'GET',
          path: '/v1/models/*',
          access: 'any-key',
          body: 'none',
          begin: answering(async (x) => {
            const id = x.params['*'] ?? ''
            if (!namesFor(gateway, x).includes(id)) throw new GatewayError('model_not_found')
            return json(shape(id))
          }),
        },
      ],
    }
  },
}

/** Ids and aliases that the caller may use. */
function namesFor({ config }: Gateway, { identity }: Exchange): readonly string[] {
  return [...config.models.values()]
    .filter((model) => identity && mayUse(identity, model, config))
    .flatMap((model) => [model.id, ...model.aliases])
}
