// The lines of chaos: what is cut is closed, at any moment.

import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { startLine } from '../../scripts/chaos/line.ts'
import { listenOn } from '../fixtures/listen.ts'
import { eventually, until } from '../fixtures/until.ts'

const rounds = 10

t.test('a connection whose end is under way can be cut', async (t) => {
  const there: Socket[] = []
  const { port } = await listenOn(
    t,
    createServer((socket) => there.push(socket)),
  )
  const line = await startLine(t, { host: '127.0.0.1', port })
  for (let round = 0; round < rounds; round++) {
    const client = connect(line.port, '127.0.0.1')
    client.on('error', () => undefined)
    const far = await eventually(async () => there.pop())
    await turn()
    // One turn of the event loop reads the reset, waits, closes the far socket, so that the near one begins to end, and
    // comes to this timer.
    setTimeout(() => line.cut(), 2)
    far.resetAndDestroy()
    await turn()
    const busyUntil = performance.now() + 10
    while (performance.now() < busyUntil);
    await until(() => line.size === 0, 5000)
    client.destroy()
  }
})
