// Puts the files of a gateway together: rows, shelf, and the sweeper that runs beside them.

import type { Config } from '../config/config.ts'
import type { Log } from '../log.ts'
import type { Metrics } from '../metrics.ts'
import { createRoom } from '../accounts/room.ts'
import type { RedisLink } from '../redis/connect.ts'
import type { ScriptLink } from '../redis/scripts.ts'
import { createScripts, isOutage, loadAtStart } from '../redis/scripts.ts'
import type { ObjectStore } from '../store/store.ts'
import { rememberAnnouncements } from './due.ts'
import { FileBook } from './files.ts'
import { fileScripts } from './library.ts'
import { Shelf } from './shelf.ts'
import { Sweeper } from './sweeper.ts'

export interface ShelfParts {
  readonly redis: ScriptLink & Pick<RedisLink, 'outage'>
  readonly store: ObjectStore
  readonly metrics: Pick<Metrics, 'redisSeconds'>
  readonly log: Pick<Log, 'warn'>
}

export interface OpenShelf {
  readonly shelf: Shelf
  close(): Promise<void>
}

/** Undefined when the plugin `files` is off. */
export async function openShelf(
  config: Pick<Config, 'plugins'>,
  { redis, store, metrics, log }: ShelfParts,
): Promise<OpenShelf | undefined> {
  if (!config.plugins.has('files')) return undefined
  const scripts = createScripts({
    link: redis,
    library: fileScripts,
    onReply: (name, seconds) => metrics.redisSeconds.observe({ script: `file_${name}` }, seconds),
  })
  await loadAtStart(scripts, redis)
  rememberAnnouncements(redis)
  const parts = { redis: redis.client, scripts, store, room: createRoom(redis) }
  const sweeper = new Sweeper({
    ...parts,
    onProblem({ what, ref, error }) {
      if (!isOutage(error, redis))
        log.warn(
          { err: error, what, ref },
          'a file could not be cleaned up: the next round tries again',
        )
    },
  })
  return { shelf: new Shelf(new FileBook(parts), store), close: () => sweeper.close() }
}
