// What a sweeper does about each thing that it has taken. Each task may run again, and on two gateways at once: the
// later one changes nothing.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/redis.ts'
import type { ObjectStore } from '../store/store.ts'
import { parseDue } from './due.ts'
import type { DueKind } from './due.ts'
import { objectName } from './file-row.ts'
import type { FileScripts } from './library.ts'
import { unlessAborted } from '../sharing/patience.ts'
import { dropFilesOf, rowKeys } from './removal.ts'

export interface TaskProblem {
  /** What failed, for the log. */
  readonly what: string
  readonly ref?: string
  readonly error: unknown
}

export interface TaskOptions {
  readonly redis: Redis
  readonly scripts: FileScripts
  readonly store: Pick<ObjectStore, 'remove' | 'abandon'>
  /** A deletion that takes longer has failed. */
  readonly storeMs: number
  /** How long after an upload that died its object is looked for once more. */
  readonly lookAgainMs: number
  readonly signal: AbortSignal
  onProblem(problem: TaskProblem): void
}

interface Thing {
  readonly ref: string
  readonly id: string
  /** As it stands in due. */
  readonly member: string
}

type Task = (options: TaskOptions, thing: Thing) => Promise<unknown>

/** A store that failed so often without a success is left alone for the rest of the round. */
const mostFailures = 16

/** The task returns false when it failed: the thing becomes due again, because it was taken only for a time. */
export function createTasks(
  options: TaskOptions,
): (ref: string, member: string) => Promise<boolean> {
  const guarded = { ...options, store: limited(options) }
  let failures = 0
  return async (ref, member) => {
    const { kind, id } = parseDue(member)
    const needsStore = kind === 'object' || kind === 'abandoned'
    if (needsStore && failures >= mostFailures) return false
    try {
      const task = tasks.get(kind) ?? forget
      await task(guarded, { ref, id, member })
      if (needsStore) failures = 0
      return true
    } catch (error) {
      if (needsStore) failures++
      if (!options.signal.aborted) options.onProblem({ what: member, ref, error })
      return false
    }
  }
}

const tasks: ReadonlyMap<string, Task> = new Map<DueKind, Task>([
  ['abandoned', abandon],
  ['object', removeObject],
  ['expiry', expire],
  ['session', followSession],
])

/** A frozen process may still put the object later, and end before removing it: so the object is looked for once more. */
async function abandon(options: TaskOptions, thing: Thing) {
  const { scripts, store, lookAgainMs } = options
  const { ref, id, member } = thing
  if (!(await hasRow(options, thing))) await store.abandon(objectName(ref, id))
  const words = [id, member, `${lookAgainMs}`]
  await scripts.run('forget', [keys.storage(ref), keys.due(ref)], words)
}

async function removeObject(options: TaskOptions, thing: Thing) {
  const { ref, id } = thing
  if (!(await hasRow(options, thing))) await options.store.remove(objectName(ref, id))
  await forget(options, thing)
}

/** A sweeper must remove only objects without a row. */
async function hasRow({ redis }: TaskOptions, { ref, id }: Thing): Promise<boolean> {
  return (await asked(redis.hexists(keys.file(ref, id), 'bytes'))) === 1
}

const toldS = 7 * 86_400

/** Replaces the row by a tombstone; after that, the object is due. */
async function expire({ redis, scripts }: TaskOptions, { ref, id }: Thing) {
  const session = (await asked(redis.hget(keys.file(ref, id), 'session'))) ?? ''
  await scripts.run('expire', rowKeys({ ref, id, session }), [id, `${toldS}`])
}

/** Removes the rows of a session that is gone; after that, their objects are due. */
async function followSession({ redis, scripts }: TaskOptions, { ref, id }: Thing) {
  const names = [keys.session(ref, id), keys.sessionFiles(ref, id), keys.due(ref)]
  const { word } = await scripts.run('outlive', names, [id])
  if (word === 'gone') await dropFilesOf({ redis, scripts, retryMs: 0 }, ref, id)
}

async function forget({ redis }: TaskOptions, { ref, member }: Thing) {
  await asked(redis.zrem(keys.due(ref), member))
}

/** A call fails when it takes longer than `storeMs`, or when the sweeper closes. */
function limited({ store, storeMs, signal }: TaskOptions): TaskOptions['store'] {
  const within = (work: Promise<void>) =>
    unlessAborted(work, AbortSignal.any([signal, AbortSignal.timeout(storeMs)]))
  return {
    remove: (name) => within(store.remove(name)),
    abandon: (name) => within(store.abandon(name)),
  }
}
