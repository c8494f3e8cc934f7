// A backend that answers before it has read the request: the gateway frees the memory of the request only when the
// system has taken all of it. In a file of its own, since the backend is a bare server that decides when to read.

import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import t from 'tap'
import { Gate } from '../fixtures/gate.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { listenOn } from '../fixtures/listen.ts'

const mebibyte = 2 ** 20
const event = (choice: object) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, ...choice }] })}\n\n`

t.test(
  'a large body arrives as it was sent, also where its answer began long before',
  async (t) => {
    const gate = new Gate()
    const digests: string[] = []
    const server = createServer(async (req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      res.write(event({ delta: { content: 'Hi' } }))
      await gate.wait()
      const hash = createHash('sha256')
      for await (const chunk of req) hash.update(chunk as Buffer)
      digests.push(hash.digest('hex'))
      res.end(event({ delta: {}, finish_reason: 'stop' }) + 'data: [DONE]\n\n')
    })
    const { url } = await listenOn(t, server)
    const yaml = `models: { m: { targets: [{ url: '${url}/v1', include_usage: false }], context_window: 10000000, price: { input: 0 } } }`
    const gateway = await startGateway(t, {
      yaml: `${yaml}\nplans: { default: { tokens_per_minute: 100000000 } }`,
    })
    const { key } = await gateway.account(1_000_000)
    const content = 'words '.repeat((24 * mebibyte) / 6)
    // With the limit in the body nothing is added: what arrives is what is sent.
    const body = JSON.stringify({
      model: 'm',
      stream: true,
      messages: [{ role: 'user', content }],
      max_tokens: 9,
    })
    const answer = await gateway.call('/v1/chat', key, body)
    t.equal(answer.status, 200)
    const reader = answer.body?.getReader()
    t.match(Buffer.from((await reader?.read())?.value ?? []).toString(), /"Hi"/)
    gate.open()
    let rest = ''
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
      rest += Buffer.from(part.value).toString()
    }
    t.match(rest, /\[DONE\]/)
    t.same(digests, [createHash('sha256').update(body).digest('hex')])
  },
)
