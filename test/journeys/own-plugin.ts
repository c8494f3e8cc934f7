// The plugin of docs/plugins.md, loaded by its path: it changes streams and whole answers alike.

import t from 'tap'
import { fileURLToPath } from 'node:url'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { spawnGateway } from '../fixtures/gateway.ts'

const redact = fileURLToPath(new URL('../../config/examples/plugins/redact.ts', import.meta.url))

t.test(
  'an operator plugin redacts words in streams and in JSON, and the charge stays',
  async (t) => {
    const backend = await startBackend(t, chat({ chunks: 3, text: () => 'secret ' }))
    const gate = await spawnGateway(t, {
      yaml: `
models: { m: { targets: [{ url: '${backend.url}' }] } }
plugins:
  ${redact}: { words: [secret] }
`,
    })
    const { key } = await gate.account(10_000)
    const ask = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }
    for (const stream of [true, false]) {
      const text = await (await gate.call('/v1/chat', key, { ...ask, stream })).text()
      t.notMatch(text, /secret/)
      t.match(text, /\*{6}/)
    }
    const balance = (await (await gate.call('/api/billing/balance', key)).json()) as {
      spent: number
    }
    t.equal(balance.spent, backend.served.prompt + backend.served.completion)
  },
)
