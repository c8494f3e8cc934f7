// Chat sessions: /api/chat/sessions and the messages below. The
// routes are in this folder, the work is done in src/sessions.

import { bytes, duration, z } from '../../config/schema.ts'
import { createSlots } from '../../sharing/slots.ts'
import type { Gateway, Plugin } from '../../plugin.ts'
import { createRoom } from '../../accounts/room.ts'
import { createScripts, loadAtStart } from '../../redis/scripts.ts'
import { keptThroughReloads } from '../../kept-through-reloads.ts'
import { Generations } from '../../sessions/streams/generations.ts'
import type { GenerationsOptions } from '../../sessions/streams/generations.ts'
import { sessionScripts } from '../../sessions/library.ts'
import type { SessionScripts } from '../../sessions/library.ts'
import { sleepSettings } from '../../sessions/asleep/rounds.ts'
import { Waking } from '../../sessions/asleep/waking.ts'
import { Lost } from '../../sessions/streams/lost.ts'
import { MessageBook } from '../../sessions/messages.ts'
import { SessionBook, retentionS } from '../../sessions/sessions.ts'
import { Readers } from '../../sessions/streams/reader.ts'
import { StreamRows } from '../../sessions/streams/stream-rows.ts'
import { Streams } from '../../sessions/streams/streams.ts'
import { messageRoutes } from './messages.ts'
import { resourceRoutes } from './resource.ts'
import { sendRoute } from './send.ts'
import { streamRoutes } from './stream.ts'

const hourMs = 3_600_000

const schema = z.strictObject({
  retention: duration({ min: 0, max: 10 * 8760 * hourMs })
    .prefault('0s')
    .describe('A session that was not changed for this long is deleted; `0s` keeps all for ever.'),
  ...sleepSettings.shape,
  replay_bytes: bytes()
    .prefault('8MiB')
    .describe("The most that is kept of a message's stream; the oldest events are dropped first."),
})

type SessionsConfig = z.infer<typeof schema>

export const sessions: Plugin<SessionsConfig> = {
  name: 'sessions',
  schema: schema.describe(
    'Chats that the gateway keeps, with streams that can be resumed, under `/api/chat/sessions`.',
  ),
  async setup(gateway, config) {
    if (!gateway.config.plugins.has('metering')) {
      throw new Error(
        'plugins.sessions needs plugins.metering, which holds the money for each answer. Switch off both, or neither.',
      )
    }
    const loading = library(gateway)
    // At a reload Redis has them already, and may be away.
    if (!loading.isLoaded) await loadAtStart(loading.scripts, gateway.redis)
    loading.isLoaded = true
    const { scripts } = loading
    const parts = { gateway, scripts, ...partsOf(gateway, config, scripts) }
    const { book, messages, streams } = parts
    return {
      routes: [
        ...resourceRoutes(parts),
        ...messageRoutes(messages, streams),
        ...streamRoutes(streams, book),
        sendRoute(parts),
      ],
    }
  },
}

function partsOf(gateway: Gateway, config: SessionsConfig, scripts: SessionScripts) {
  const redis = gateway.redis.client
  const { sessionBytes, heartbeatMs, firstByteMs, sessionFirstEventMs } = gateway.config.limits
  const { leaseMs } = gateway.ledger
  const { replay_bytes: replayBytes, replay_keep: replayKeepMs, retention: retentionMs } = config
  const room = createRoom(gateway.redis)
  const book = new SessionBook({ redis, scripts, room, retentionMs, replayKeepMs })
  const { store, log, metrics } = gateway
  const waking = new Waking({ redis, scripts, store, log, metrics })
  const messages = new MessageBook({ redis, scripts, waking })
  const rows = new StreamRows({
    redis,
    scripts,
    waking,
    replayBytes,
    replayKeepMs,
    retentionS: retentionS({ retentionMs }),
    sessionBytes,
    leaseMs,
  })
  const lost = new Lost({ redis, rows, holds: gateway.ledger.holds })
  const keeping = { rows, replayBytes }
  const generations = generating(gateway, keeping)
  const slots = createSlots({ pool: gateway.pools.readers })
  // Until then the first send's files are read and its answer has begun, or its owner is known to be gone.
  const openPatienceMs = Math.max(leaseMs, firstByteMs + sessionFirstEventMs) + 2000
  const readers = new Readers({ rows, slots, heartbeatMs })
  const reading = { rows, lost, generations, readers, replayBytes, messages }
  const streams = new Streams({ ...reading, openPatienceMs })
  return { waking, room, book, messages, rows, lost, generations, keeping, readers, streams }
}

/** Generations go on through reloads; one that was begun before keeps its stream as it began. */
const generating = keptThroughReloads((gateway, keeping: GenerationsOptions) => {
  const generations = new Generations(keeping)
  gateway.redis.onReady(() => generations.wake())
  gateway.atEnd(() => generations.close())
  return generations
})

const library = keptThroughReloads((gateway) => ({ scripts: scriptsOf(gateway), isLoaded: false }))

function scriptsOf({ redis, metrics }: Gateway): SessionScripts {
  return createScripts({
    link: redis,
    library: sessionScripts,
    onReply: (name, seconds) =>
      metrics.redisSeconds.observe({ script: `session_${name}` }, seconds),
  })
}
