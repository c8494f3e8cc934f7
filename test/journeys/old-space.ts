// What a request leaves in V8's old generation, where it stays until the next full collection. If anything old points to an
// exchange, even something dead, each minor collection keeps the whole exchange, 22 KB, and full collections come far more
// often. Of the 0.9 KB that stay, 0.6 are the settlement, which the outbox keeps for 30 s.

import t from 'tap'
import { chat } from '../fixtures/backend-model.ts'
import { startBackend } from '../fixtures/backend.ts'
import { spawnGateway } from '../fixtures/gateway.ts'
import { outputOnly } from '../fixtures/money.ts'
import { rawClient } from '../fixtures/raw-http.ts'

const mostBytes = 2048
const warmUps = 400
const counted = 1600

for (const stream of [false, true]) {
  const what = stream ? 'a stream' : 'a whole answer'
  t.test(`${what} leaves less than 2 KB in the old generation`, async (t) => {
    const backend = await startBackend(t, chat())
    const gateway = await spawnGateway(t, {
      yaml: outputOnly(backend.url),
      flags: ['--trace-gc-nvp'],
      isBare: true,
    })
    const { key } = await gateway.account(1_000_000_000)
    const client = await rawClient(t, Number(new URL(gateway.url).port))
    const body = JSON.stringify({ model: 'm', stream, messages: [{ role: 'user', content: 'Hi' }] })
    const head = [
      'POST /v1/chat/completions HTTP/1.1',
      'host: gateway',
      `authorization: Bearer ${key}`,
      'content-type: application/json',
      `content-length: ${body.length}`,
    ]
    const request = `${head.join('\r\n')}\r\n\r\n${body}`
    const ask = async (times: number) => {
      for (let i = 0; i < times; i++) {
        const { status } = await client.ask(request)
        if (status !== 200) throw new Error(`status ${status}`)
      }
    }
    await ask(warmUps)
    const before = gateway.log.length
    await ask(counted)
    const collections = gateway.log
      .slice(before)
      .map(promotedIn)
      .filter((bytes) => bytes >= 0)
    t.ok(collections.length > 3, `${collections.length} minor collections`)
    const each = collections.reduce((sum, bytes) => sum + bytes, 0) / counted
    t.ok(each < mostBytes, `${each.toFixed(0)} bytes a request`)
  })
}

/** The bytes that a minor collection has moved to the old generation; -1 if the line is about anything else. */
function promotedIn(line: string): number {
  const [, bytes = -1] = /\bgc=s .*\bpromoted=(\d+)/.exec(line) ?? []
  return Number(bytes)
}
