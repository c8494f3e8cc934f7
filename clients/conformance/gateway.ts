// A real gateway whose model answers everybody with the same sixty words: shared by the journeys, the clients' own
// checks and the browser.

import { chat, endless } from '../../test/fixtures/backend-model.ts'
import { startBackend } from '../../test/fixtures/backend.ts'
import type { Call } from '../../test/fixtures/backend.ts'
import { spawnGateway } from '../../test/fixtures/gateway.ts'
import type { TestGateway } from '../../test/fixtures/gateway.ts'
import { noLimits } from '../../test/fixtures/session-chat.ts'
import { teardownOf } from '../../test/fixtures/teardown.ts'

/** Each word is one token. */
export const words = 60
export const text = Array.from({ length: words }, (_, i) => `w${i} `).join('')

/** `plugins`: lines of gateway.yaml, added to the usual plugins. */
export async function startGateway(
  undo: AsyncDisposableStack,
  plugins: object = {},
): Promise<TestGateway> {
  const t = teardownOf(undo)
  const backend = await startBackend(t, answer)
  return await spawnGateway(t, {
    yaml: `
models:
  demo: { targets: [{ url: '${backend.url}' }], price: { input: 0, output: 1 }, max_output_tokens: 10000, context_window: 900000 }
plugins: ${JSON.stringify({ files: { max_bytes: '1GiB' }, ...plugins })}
${noLimits}`,
  })
}

/** When asked for more, the model says words without end, slowly. */
function answer(call: Call): void | Promise<void> {
  const { messages } = call.json as { readonly messages?: readonly { readonly content: unknown }[] }
  const isEndless = messages?.at(-1)?.content === 'without end'
  return (isEndless ? endless({ gapMs: 5 }) : chat({ chunks: words }))(call)
}
