// Stateless chat from the outside: what the client sees, what the backend gets, what is charged.

import t from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { startGateway } from '../fixtures/gateway.ts'

const hi = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] }

interface Balance {
  readonly balance: number
  readonly reserved: number
  readonly available: number
}

t.test(
  'a streamed answer is charged by what the backend reported, and the balance is never stale',
  async (t) => {
    const backend = await startBackend(t, chat({ chunks: 5, usage: 'asked' }))
    const gate = await startGateway(t, {
      yaml: `models: { m: { targets: [{ url: '${backend.url}' }] } }`,
    })
    const { key } = await gate.account(10_000)
    const answer = await gate.call('/v1/chat', key, { ...hi, stream: true })
    t.equal(answer.status, 200)
    const text = await answer.text()
    t.match(text, /data: \[DONE\]\n\n$/)
    t.notMatch(text, /"usage":\{/, 'the usage chunk was not asked for')
    const balance = (await (await gate.call('/api/billing/balance', key)).json()) as Balance
    t.equal(balance.balance, 10_000 - backend.served.prompt - backend.served.completion)
    t.equal(balance.reserved, 0)
  },
)
