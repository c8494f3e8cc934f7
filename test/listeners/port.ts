import t from 'tap'
import type { Test } from 'tap'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { connect } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { closePort, ensureFree, openPort } from '../../src/listeners/port.ts'
import type { Sharing } from '../../src/listeners/port.ts'

const host = '127.0.0.1'
const many = 100

async function open(t: Test, listen: Sharing & { readonly port?: number }) {
  let accepted = 0
  const create = () =>
    createServer().on('connection', (socket) => {
      accepted++
      socket.resume()
    })
  const { servers, port } = await openPort(create, { host, port: 0, ...listen })
  const close = () => closePort(servers, new Set(), 0)
  t.teardown(close)
  return { port, close, accepted: () => accepted }
}

/** In how many turns of the loop `many` connections are accepted. */
async function turnsFor(t: Test, listen: Sharing): Promise<number> {
  const { port, accepted } = await open(t, listen)
  const clients = Array.from({ length: many }, () => connect({ host, port }))
  t.teardown(() => clients.forEach((client) => client.destroy()))
  let turns = 0
  for (; accepted() < many; turns++) await turn()
  for (const client of clients) client.destroy()
  return turns
}

t.test('a wide port accepts several connections in a turn of the loop', async (t) => {
  const narrow = await turnsFor(t, {})
  t.ok(narrow >= many, `${narrow} turns: Node accepts one in each`)
  const wide = await turnsFor(t, { wide: 'first' })
  const isSpread = process.platform === 'linux'
  t.ok(wide < (isSpread ? many / 2 : 2 * many), `${wide} turns`)
})

t.test('a port in use is an error, whoever has it and however', async (t) => {
  const kinds: readonly Sharing[] = [{}, { wide: 'first' }]
  for (const theirs of kinds) {
    const { port, close } = await open(t, theirs)
    for (const ours of kinds) {
      await t.rejects(open(t, { ...ours, port }), { code: 'EADDRINUSE' })
    }
    await t.rejects(ensureFree(host, port), { code: 'EADDRINUSE' })
    await close()
    await ensureFree(host, port)
  }
})

t.test(
  'a process of the same gateway joins a wide port',
  { skip: process.platform !== 'linux' },
  async (t) => {
    const { port, accepted } = await open(t, { wide: 'first' })
    const joined = await open(t, { wide: 'joined', port })
    t.equal(joined.port, port)
    const clients = Array.from({ length: many }, () => connect({ host, port }))
    t.teardown(() => clients.forEach((client) => client.destroy()))
    while (accepted() + joined.accepted() < many) await turn()
    t.ok(accepted() > 0 && joined.accepted() > 0, 'each has some')
  },
)

t.test('a wide port closes as a whole', async (t) => {
  const { port, close } = await open(t, { wide: 'first' })
  await close()
  for (let i = 0; i < 20; i++) {
    const [error] = await once(connect({ host, port }), 'error')
    t.equal(error.code, 'ECONNREFUSED')
  }
})

t.test('when one socket cannot listen, the others are closed', async (t) => {
  const servers: ReturnType<typeof createServer>[] = []
  const create = () => {
    if (servers.length === 3) throw new Error('no')
    const server = createServer()
    servers.push(server)
    return server
  }
  const listen = { host, port: 0, wide: 'first' } as const
  await t.rejects(openPort(create, listen), { message: 'no' })
  t.ok(servers.every(({ listening }) => !listening))
})
