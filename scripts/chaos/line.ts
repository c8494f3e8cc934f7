// A line between two parts, on TCP: it can be slow, hang, be cut, or be closed to new connections, as networks are.

import { connect, createServer } from 'node:net'
import type { NetConnectOpts, Socket } from 'node:net'
import { listenOn } from '../../test/fixtures/listen.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'

export interface Line {
  readonly port: number
  /** The connections that are open. */
  readonly size: number
  /** Delays what arrives from now on, in both directions. */
  setDelay(ms: number): void
  /** Nothing arrives until `resume`. */
  stall(): void
  resume(): void
  /** Resets all connections. */
  cut(): void
  /** Cuts, and refuses connections until `open`. */
  close(): void
  open(): void
}

export async function startLine(t: Teardown, to: NetConnectOpts): Promise<Line> {
  const pairs = new Set<readonly [Socket, Socket]>()
  const state = { delayMs: 0, isClosed: false, isStalled: false }
  const server = createServer({ noDelay: true }, (client) => {
    if (state.isClosed) return void client.resetAndDestroy()
    const far = connect(to)
    const pair = [client, far] as const
    pairs.add(pair)
    if (state.isStalled) for (const socket of pair) socket.pause()
    pass(client, far, state)
    pass(far, client, state)
    client.on('close', () => {
      pairs.delete(pair)
      far.destroy()
    })
    far.on('close', () => client.destroySoon())
    for (const socket of pair) socket.on('error', () => undefined)
  })
  const { port } = await listenOn(t, server)
  const cut = () => {
    for (const [client, far] of pairs) {
      // Node can't reset a socket whose end is under way: the socket never closes, and the process never ends.
      if (client.writableEnded) client.destroy()
      else client.resetAndDestroy()
      far.destroy()
    }
  }
  const all = () => [...pairs].flat()
  t.teardown(cut)
  return {
    port,
    get size() {
      return pairs.size
    },
    setDelay: (ms) => void (state.delayMs = ms),
    stall() {
      state.isStalled = true
      for (const socket of all()) socket.pause()
    },
    resume() {
      state.isStalled = false
      for (const socket of all()) socket.resume()
    },
    cut,
    close() {
      state.isClosed = true
      cut()
    },
    open: () => void (state.isClosed = false),
  }
}

function pass(from: Socket, to: Socket, state: { readonly delayMs: number }): void {
  let last = Promise.resolve()
  let isLate = false
  const write = (chunk: Buffer) => {
    if (to.destroyed || to.write(chunk)) return
    from.pause()
    to.once('drain', () => from.resume())
  }
  from.on('data', (chunk: Buffer) => {
    if (state.delayMs === 0 && !isLate) return write(chunk)
    isLate = true
    const { delayMs } = state
    const arrived = new Promise((resolve) => setTimeout(resolve, delayMs))
    const mine = (last = last
      .then(() => arrived)
      .then(() => {
        write(chunk)
        if (mine === last) isLate = false
      }))
  })
  from.on('end', () => void last.then(() => to.end()))
}
