// Node's own agents in place of connections.ts, whose test also runs with them. This file tests only their own
// behaviour.

import { once } from 'node:events'
import { ClientRequest, request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { Socket, connect, createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { agentsFor } from '../../src/backend/agents.ts'
import { startBackend } from '../fixtures/backend.ts'
import { until } from '../fixtures/until.ts'

t.test('a second try closes all idle connections, and none that is in use', async (t) => {
  const backend = await startBackend(t)
  const kept = agentsFor({ url: new URL(backend.url), ca: undefined, connectMs: 1000 })
  const ask = async (agent = kept.reusing) => {
    const req = request(`${backend.url}/models`, { agent })
    req.end()
    const [res] = (await once(req, 'response')) as [IncomingMessage]
    return { res, isReused: req.reusedSocket }
  }
  const finish = async ({ res }: { res: IncomingMessage }) => {
    const closed = once(res, 'close')
    res.resume()
    await closed
  }
  const three = await Promise.all([ask(), ask(), ask()])
  const [first, second, third] = three
  await Promise.all([finish(first), finish(second)])
  t.equal(kept.idle, 2)
  const again = await ask(kept.fresh())
  t.equal(again.isReused, false)
  t.equal(kept.idle, 0)
  await Promise.all([finish(third), finish(again)])
  t.equal(third.res.complete, true)
  t.equal(kept.idle, 2)
  kept.close()
  await until(() => kept.idle === 0)
})

t.test('an idle connection on which bytes have come is closed when it is to be used', async (t) => {
  const spoken: Socket[] = []
  const server = createServer((socket) => void spoken.push(socket)).listen(0, '127.0.0.1')
  t.teardown(() => void server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const url = new URL(`http://127.0.0.1:${port}`)
  const { reusing } = agentsFor({ url, ca: undefined, connectMs: 1000 })
  const socket = connect(port, '127.0.0.1')
  t.teardown(() => void socket.destroy())
  await until(() => spoken.length === 1)
  const req = new ClientRequest({ agent: reusing, createConnection: () => new Socket() })
  req.on('error', () => undefined)
  t.teardown(() => void req.destroy())
  t.equal(reusing.keepSocketAlive(socket), true)
  reusing.reuseSocket(socket, req)
  t.equal(socket.destroyed, false)
  socket.resume()
  spoken[0]?.write('evil')
  await until(() => socket.bytesRead > 0)
  t.equal(socket.readableLength, 0)
  reusing.reuseSocket(socket, req)
  t.equal(socket.destroyed, true)
})
