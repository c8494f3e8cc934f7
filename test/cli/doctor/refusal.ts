import { Readable } from 'node:stream'
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import { readBody, refusal } from '../../../src/cli/doctor/refusal.ts'
import { routeTo } from '../../fixtures/route.ts'

t.test('a refused key is reported as that, without the key', async (t) => {
  const { target } = await routeTo(t, 'http://backend/v1', { target: 'key: sk-abc' })
  const body = Buffer.from('{"error":{"message":"Incorrect API key: sk-abc"}}')
  t.match(refusal(401, body, target), {
    verdict: 'fail',
    detail: '401, the key is refused: Incorrect API key: ***',
  })
  const { target: long } = await routeTo(t, 'http://backend/v1', { target: 'key: sk-abcdefgh-xyz' })
  const quoting = Buffer.from('{"error":{"message":"Incorrect API key: sk-a***-xyz"}}')
  t.match(refusal(401, quoting, long), {
    detail: '401, the key is refused: Incorrect API key: ***',
  })
  const { target: open } = await routeTo(t, 'http://backend/v1')
  t.match(refusal(403, Buffer.alloc(0), open), { detail: '403, and no key is configured' })
  t.match(refusal(500, Buffer.from('<p>'), open), { verdict: 'fail', detail: '500' })
})

t.test('a body without an end is not read without end', async (t) => {
  const endless = Readable.from(
    (function* () {
      for (;;) yield Buffer.alloc(1 << 20)
    })(),
  )
  await t.rejects(readBody(endless as unknown as IncomingMessage), { message: /more than 4 MiB/ })
  t.ok(endless.destroyed)
})
