// Fills in values that follow from others when the file does not give them. In the file's own notation, so that
// `check --print` shows the values that the gateway runs with.

import { block, isBlock, type Block } from './check.ts'
import { defaultMaxOutputTokens } from './model-keys.ts'

/** `file` must have no problems. */
export function derive(file: Block): Block {
  const models = Object.entries(block(file.models))
  return {
    ...file,
    models: Object.fromEntries(models.map(([id, model]) => [id, deriveModel(block(model))])),
    // Accounts without a plan are on `default`, even if the file does not describe it.
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
