// Values that follow from others where the file does not give them. In the file's own notation, so that what is
// printed as effective is what the gateway runs on.

import { block, isBlock, type Block } from './check.ts'
import { defaultMaxOutputTokens } from './model-keys.ts'

/** Of a file without problems. */
export function derive(file: Block): Block {
  const models = Object.entries(block(file.models))
  return {
    ...file,
    models: Object.fromEntries(models.map(([id, model]) => [id, deriveModel(block(model))])),
    // Accounts that name no plan are on `default`, described or not.
    plans: { default: {}, ...block(file.plans) },
  }
}

function deriveModel(model: Block): Block {
  const { price, context_window: window, max_output_tokens: output } = model
  const fits =
    output !== undefined || typeof window !== 'number' || window >= defaultMaxOutputTokens
  return {
    ...model,
    ...(!fits && { max_output_tokens: window }),
    ...(isBlock(price) &&
      price.input !== undefined && { price: { cached_input: price.input, ...price } }),
  }
}
