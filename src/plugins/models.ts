// GET /v1/models: the configured models that the caller's key and plan may use, in OpenAI's list shape, with what each
// costs and takes in fields of its own.

import type { Model } from '../config/config.ts'
import { noKeys } from '../config/schema.ts'
import { GatewayError } from '../errors.ts'
import { answering, json } from '../exchange.ts'
import type { Exchange } from '../exchange.ts'
import type { Gateway, Plugin } from '../plugin.ts'
import { mayUse } from '../accounts/plan.ts'
import { showModel } from '../ledger/price.ts'

export const models: Plugin = {
  name: 'models',
  schema: noKeys.describe('`GET /v1/models`.'),
  setup(gateway) {
    const created = Math.floor(Date.now() / 1000)
    const shape = ({ name, model }: NamedModel) => ({
      id: name,
      object: 'model',
      created,
      owned_by: 'tollgate',
      ...showModel(model),
      endpoints: model.endpoints,
    })
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
            const found = namesFor(gateway, x).find(({ name }) => name === id)
            if (!found) throw new GatewayError('model_not_found')
            return json(shape(found))
          }),
        },
      ],
    }
  },
}

interface NamedModel {
  readonly name: string
  readonly model: Model
}

/** Ids and aliases that the caller may use. */
function namesFor({ config }: Gateway, { identity }: Exchange): readonly NamedModel[] {
  return [...config.models.values()]
    .filter((model) => identity && mayUse(identity, model, config))
    .flatMap((model) => [model.id, ...model.aliases].map((name) => ({ name, model })))
}
