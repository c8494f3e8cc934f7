// The part of `tollgate doctor` about the store: does everything that an upload and a download need once, under names
// of its own. Removes these objects however the examination ends, and touches nothing else in the store. For a
// store on disk it also checks the free space, and removes the folders that the checks have made.

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { rmdir, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import type { StoreConfig } from '../../store/drivers.ts'
import { openDriver } from '../../store/drivers.ts'
import { smallestPart } from '../../store/s3-driver.ts'
import type { S3Config } from '../../store/s3-driver.ts'
import { NoSuchObject } from '../../store/store.ts'
import type { ObjectStore } from '../../store/store.ts'
import { fail, ok, warn } from './examination.ts'
import type { Examination, CheckOutcome } from './examination.ts'

export async function examineStore(config: StoreConfig, examination: Examination): Promise<void> {
  const removeFolders = 'disk' in config ? await watchFolders(config.disk.path) : undefined
  // No call may outlive its check, or the command would not end.
  const store = await openDriver(config, { trialMs: examination.limitMs })
  try {
    await examineOpen(store, config, examination)
  } finally {
    await store.close()
    await removeFolders?.()
  }
}

async function examineOpen(
  opened: ObjectStore,
  config: StoreConfig,
  examination: Examination,
): Promise<void> {
  const { store, puts } = watchPuts(opened)
  const mark = `doctor/${randomBytes(8).toString('hex')}`
  const [whole, cut] = [`${mark}-whole`, `${mark}-cut`]
  try {
    const written = await examination.check('store write', (signal) => write(store, whole, signal))
    // The other checks need a store that can be written.
    if (written !== 'fail') {
      await examination.check('store ranged read', () => readRange(store, whole))
      await examination.check('store delete', () => remove(store, whole))
      const size = 's3' in config ? smallestPart : content.length
      await examination.check('store upload cut short', (signal) =>
        cutShort(store, { name: cut, size, signal, seenMs: examination.limitMs / 2 }),
      )
    }
  } finally {
    for (const [name, settled] of puts) {
      await examination.tidy(`store clean-up of ${name}`, async () => {
        await settled
        await store.abandon(name)
      })
    }
  }
  if ('disk' in config) {
    const { path, reserveBytes = 0 } = config.disk
    await examination.check('store space', () => judgeSpace(path, reserveBytes))
  }
  if ('s3' in config) {
    await examination.check('store clock', (signal) => readClock(config.s3, signal))
  }
}

interface Watched {
  readonly store: ObjectStore
  /** By object name; a promise resolves when its put can write nothing more. */
  readonly puts: ReadonlyMap<string, Promise<unknown>>
}

function watchPuts(store: ObjectStore): Watched {
  const puts = new Map<string, Promise<unknown>>()
  const put: ObjectStore['put'] = (name, content, options) => {
    const putting = store.put(name, content, options)
    const settled = putting.catch(() => undefined) // the caller of `put` gets the error
    puts.set(name, settled)
    return putting
  }
  return { store: { ...store, put }, puts }
}

/** Every byte differs from its neighbours, so that a range that is off by one is found. */
const content = Buffer.from(Array.from({ length: 64 * 1024 }, (_, i) => i % 251))

async function write(store: ObjectStore, name: string, signal: AbortSignal): Promise<CheckOutcome> {
  const begun = performance.now()
  await store.put(name, content, { signal })
  return ok(`${content.length / 1024} KiB in ${(performance.now() - begun).toFixed(0)} ms`)
}

async function readRange(store: ObjectStore, name: string): Promise<CheckOutcome> {
  const [start, end] = [1000, 1999]
  const read = await buffer(await store.read(name, { start, end }))
  if (read.equals(content.subarray(start, end + 1))) return ok(`bytes ${start} to ${end}`)
  return fail(`bytes ${start} to ${end} differ from what was written`)
}

async function remove(store: ObjectStore, name: string): Promise<CheckOutcome> {
  await store.remove(name)
  try {
    await store.get(name)
  } catch (error) {
    if (error instanceof NoSuchObject) return ok('it is gone')
    throw error
  }
  return fail('what was deleted is still there')
}

class CutShort extends Error {}

interface Cutting {
  readonly name: string
  /** After this many bytes, the store must have a part of the upload. */
  readonly size: number
  readonly signal: AbortSignal
  /** How long it may take until the store lists the upload. */
  readonly seenMs: number
}

/**
 * Acts like a client that leaves in the middle of an upload. First waits until the store lists the upload: otherwise
 * finding nothing afterwards would prove nothing.
 */
async function cutShort(store: ObjectStore, cutting: Cutting): Promise<CheckOutcome> {
  const { name, size, signal, seenMs } = cutting
  const leaving = new AbortController()
  const upload = Readable.from(slowly(size, leaving.signal), { objectMode: false })
  const put = store.put(name, upload, { signal }).then(
    () => new Error('the store kept an upload that was cut short as if it were whole'),
    (error: unknown) => error,
  )
  try {
    const looking = AbortSignal.any([signal, leaving.signal])
    const early = await Promise.race([put, seen(store, { name, seenMs, signal: looking })])
    if (early !== undefined) throw early
  } finally {
    leaving.abort(new CutShort())
  }
  const error = await put
  if (!(error instanceof CutShort)) throw error
  const left = [...(await store.unfinished(name)), ...(await store.list(name))]
  if (left.length > 0) return fail('parts of the upload are still there after it was cut short')
  return ok('listed while it ran; nothing of it is left')
}

async function* slowly(size: number, leaving: AbortSignal): AsyncGenerator<Buffer> {
  // A copy each time, because the store frees the memory of what it has sent.
  for (let sent = 0; sent <= size; sent += content.length) yield Buffer.from(content)
  if (!leaving.aborted) await once(leaving, 'abort')
  throw leaving.reason
}

const lookMs = 50

/** Resolves when the store lists the upload as unfinished. */
async function seen(
  store: ObjectStore,
  { name, seenMs, signal }: Omit<Cutting, 'size'>,
): Promise<undefined> {
  const end = performance.now() + seenMs
  while (!(await store.unfinished(name)).includes(name)) {
    if (performance.now() > end)
      throw new Error('the store does not list a running upload as unfinished')
    await pause(lookMs, undefined, { signal })
  }
}

/** The date in a header has whole seconds, and is a little old when it arrives. */
const clockWarnMs = 5000
/** S3 refuses signatures whose time is off by more. */
const clockFailMs = 15 * 60_000

/** Uses the Date header of any answer, even of a refusal. */
async function readClock(s3: S3Config, signal: AbortSignal): Promise<CheckOutcome> {
  const url = s3.endpoint ?? `https://s3.${s3.region}.amazonaws.com`
  const { headers } = await fetch(url, { method: 'HEAD', redirect: 'manual', signal })
  return judgeClock(Date.parse(headers.get('date') ?? '') - Date.now())
}

/** `aheadMs` is NaN when the server does not tell its time. */
export function judgeClock(aheadMs: number): CheckOutcome {
  if (Number.isNaN(aheadMs)) return warn('the server does not tell the time')
  const off = Math.abs(aheadMs)
  const detail = `${Math.round(off / 1000)} s ${aheadMs < 0 ? 'behind' : 'ahead of'} this machine's`
  if (off < clockWarnMs) return ok(detail)
  return off < clockFailMs
    ? warn(`${detail}: run NTP on both`)
    : fail(`${detail}: S3 refuses requests signed with a clock that far off; run NTP on both`)
}

const leastFreeBytes = 2 ** 30

/** The free space of the file system that the folder is on, or will be on. The store takes no file that would leave less than the reserve. */
export async function judgeSpace(path: string, reserveBytes: number): Promise<CheckOutcome> {
  const { bavail, bsize } = await statfs((await missingOf(path)).above)
  const free = bavail * bsize
  const detail = `${path} has ${shown(free)} free`
  const reserve = `store.disk.reserve, ${shown(reserveBytes)}`
  if (free < reserveBytes) return fail(`${detail}, less than ${reserve}: files are refused`)
  if (free - reserveBytes >= leastFreeBytes) return ok(detail)
  return warn(`${detail}, and ${reserve}, stays free: little is left for files`)
}

function shown(bytes: number): string {
  const [size, name] = bytes < 2 ** 30 ? ([2 ** 20, 'MiB'] as const) : ([2 ** 30, 'GiB'] as const)
  return `${(bytes / size).toFixed(1)} ${name}`
}

/** Call it before the checks of a store at `path`. The function that it returns removes the folders that did not exist before. */
export async function watchFolders(path: string): Promise<() => Promise<void>> {
  const folders = [join(path, 'doctor'), join(path, '.tmp'), path]
  const missing = await Promise.all(
    folders.map(async (folder) => (await missingOf(folder)).missing),
  )
  const fresh = new Set(missing.flat())
  return async () => {
    for (const folder of [...fresh].toSorted((a, b) => b.length - a.length)) {
      await rmdir(folder).catch(() => undefined) // never made, or by now it has files of others
    }
  }
}

interface DiskWay {
  /** The folders of the path that do not exist, the deepest first. */
  readonly missing: readonly string[]
  /** The deepest folder of the path that exists. */
  readonly above: string
}

async function missingOf(path: string): Promise<DiskWay> {
  const missing: string[] = []
  let above = path
  while (!(await isThere(above)) && above !== dirname(above)) {
    missing.push(above)
    above = dirname(above)
  }
  return { missing, above }
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
