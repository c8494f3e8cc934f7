// Fills in values that follow from others when the file does not give them. In the file's own notation, so that
// `check --print` shows the values that the gateway runs with.

import { block, isBlock, type Block } from './check.ts'
import { defaultSizes } from './keys.ts'
import { defaultMaxOutputTokens } from './model-keys.ts'
import { bytes } from './schema.ts'
import { workerCount } from './workers.ts'

/** `file` must have no problems. `running` is how many workers there are until the next restart. */
export function derive(file: Block, running = workerCount(file.workers)): Block {
  const models = Object.entries(block(file.models))
  return {
    ...file,
    models: Object.fromEntries(models.map(([id, model]) => [id, deriveModel(block(model))])),
    // Accounts without a plan are on `default`, even if the file does not describe it.
    plans: { default: {}, ...block(file.plans) },
    ...deriveLimits(file, running),
  }
}

/** Each worker has its part of `bodies`, and must have room for the largest body. */
function deriveLimits({ limits }: Block, count: number): Block {
  if (count === 1 || block(limits).bodies !== undefined) return {}
  const all = count * bytes().parse(defaultSizes.bodies)
  return { limits: { ...block(limits), bodies: all } }
}

function deriveModel(model: Block): Block {
  const { price, cost, context_window: window, max_output_tokens: output } = model
  const fits =
    output !== undefined || typeof window !== 'number' || window >= defaultMaxOutputTokens
  return {
    ...model,
    ...(!fits && { max_output_tokens: window }),
    ...(isBlock(price) && { price: withCachedInput(price) }),
    ...(isBlock(cost) && { cost: withCachedInput(cost) }),
  }
}

function withCachedInput(price: Block): Block {
  return price.input === undefined ? price : { cached_input: price.input, ...price }
}
