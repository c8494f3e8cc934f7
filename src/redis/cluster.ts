// What the nodes of a Cluster do: which of them are primaries, and whether all are reachable. One that is away takes
// only its own accounts with it. ioredis finds out by itself that slots have moved, but not that a primary has died,
// because a command whose connection was lost is not sent again.

import { EventEmitter } from 'node:events'
import type { Cluster } from 'ioredis'

type Node = ReturnType<Cluster['nodes']>[number]

interface NodeEvents {
  /** Every slot has a primary, and all primaries are reachable, for the first time or again. `came` follows. */
  readonly ready: []
  /** A primary was lost; before that, all were there. */
  readonly close: []
  /** With the node's address, host:port. */
  readonly error: [Error, string]
  /** A primary connected, or another node became one: it may have forgotten what the last one had. */
  readonly came: []
  /** No primary is left. */
  readonly gone: []
  /** A node has a new connection. */
  readonly connection: [Node]
}

const slots = 16_384
/**
 * How often a Cluster is asked which node has which slots, besides after each MOVED: a node that hangs says nothing.
 * The `slotsRefreshInterval` of ioredis would go on for ever if the client is closed while it asks.
 */
const askEveryMs = 1000
/** The same, while the Cluster is not whole. */
const askBrokenEveryMs = 200

export type ClusterNodes = ReturnType<typeof watchNodes>

export function watchNodes(cluster: Cluster) {
  const events = new EventEmitter<NodeEvents>()
  let primaries: ReadonlySet<string> = new Set()
  let isCovered = false
  let wasWhole = false
  let wasUp = false
  let timer: NodeJS.Timeout | undefined
  let isClosed = false
  const ready = () => cluster.nodes().filter(isReady).map(addressOf)
  const isUp = () => cluster.status === 'ready' && ready().some((node) => primaries.has(node))
  const isWhole = () => isCovered && isUp() && isWithin(primaries, ready())
  const ask = () => {
    timer = undefined
    // If no node answers, it begins again with the configured ones: all may have new addresses.
    cluster.refreshSlotsCache((error) => {
      if (error && cluster.status === 'ready' && ready().length === 0) cluster.disconnect(true)
      if (!isClosed) look(false)
    })
  }
  /** `hasCome`: a primary may have forgotten something. */
  const look = (hasCome: boolean) => {
    const [up, whole] = [isUp(), isWhole()]
    const [isLost, isBroken, isHealed] = [wasUp && !up, wasWhole && !whole, !wasWhole && whole]
    wasUp = up
    wasWhole = whole
    if (isBroken) events.emit('close')
    if (isLost) events.emit('gone')
    if (isHealed) events.emit('ready')
    if (up && (hasCome || isHealed)) events.emit('came')
    if (isBroken) stopTimer()
    if (!isClosed) timer ??= setTimeout(ask, whole ? askEveryMs : askBrokenEveryMs).unref()
  }
  const stopTimer = () => {
    clearTimeout(timer)
    timer = undefined
  }
  cluster.on('+node', (node: Node) => {
    node.on('ready', () => {
      events.emit('connection', node)
      look(primaries.has(addressOf(node)))
    })
    node.on('close', () => look(false))
    const open = () => {
      if (node.status === 'wait') node.connect().catch(() => undefined) // `node error` has the reason
    }
    // A command that is sent to a new node waits for it; a later one finds it still connecting and is refused.
    if (cluster.status === 'ready') setImmediate(open)
    else open()
  })
  cluster.on('refresh', () => {
    const before = primaries
    const owners = cluster.slots.map(([first]) => first)
    primaries = new Set(owners.filter((owner) => owner !== undefined))
    isCovered = owners.length === slots && owners.every((owner) => owner !== undefined)
    look(before.size > 0 && !isWithin(primaries, [...before]))
  })
  cluster.on('node error', (error: Error, address: string) => {
    // Without a reason: the connection of the same node has it.
    if (error.message !== 'Connection is closed.') events.emit('error', error, address)
  })
  cluster.on('error', () => undefined) // `node error` had the reason
  events.on('error', () => undefined) // without a listener, it would be thrown
  return {
    events,
    get isUp() {
      return isUp()
    },
    get isWhole() {
      return wasWhole
    },
    close() {
      isClosed = true
      stopTimer()
    },
  }
}

function isWithin(some: ReadonlySet<string>, all: readonly string[]): boolean {
  return [...some].every((one) => all.includes(one))
}

function isReady({ status }: Node): boolean {
  return status === 'ready'
}

/** As ioredis names it in `slots`. */
function addressOf({ options: { host, port } }: Node): string {
  return `${host}:${port}`
}
