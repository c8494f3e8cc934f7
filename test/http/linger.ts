import t from 'tap'
import { chunked, serveBodies as serve, sized } from '../fixtures/http-listener.ts'

t.test('50 MB on a route for 1 MiB: 413 and no reset, and memory does not grow', async (t) => {
  const { client } = await serve(t)
  for (const head of [sized(50_000_000), `${chunked}${(50_000_000).toString(16)}\r\n`]) {
    const one = await client()
    const piece = Buffer.alloc(64 * 1024, 'a')
    const before = process.memoryUsage().arrayBuffers
    const gone = new Promise((resolve) => one.socket.on('close', resolve))
    one.socket.on('error', () => {}) // The server reads 1 MiB more, then closes.
    one.send(head)
    const pump = () => {
      while (!one.socket.destroyed && one.socket.write(piece));
    }
    one.socket.on('drain', pump)
    pump()
    const answer = await one.answer()
    t.equal(answer.json.error?.code, 'body_too_large')
    await gone
    t.ok(process.memoryUsage().arrayBuffers - before < 20_000_000)
  }
})

t.test('a refusal leaves the client time to send the rest, up to 1 MiB', async (t) => {
  const { client } = await serve(t, { maxBytes: 100_000 })
  const one = await client()
  t.equal((await one.ask(sized(500_000), 'a'.repeat(100_000))).json.error?.code, 'body_too_large')
  for (let i = 0; i < 4; i++) {
    await new Promise(setImmediate)
    const failure = await new Promise((sent) => one.socket.write('a'.repeat(100_000), sent))
    t.notOk(failure, 'no reset')
  }
  t.equal(await one.ended(), '')
})
