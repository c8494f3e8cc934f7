// Ledger writes on disk: orders that Redis could not be told yet, and credits until Redis has surely kept them. Each
// process has one append-only ndjson file; a live process takes over the file of a dead one by an exclusive rename. A
// file that is taken although its process lives does no harm: every order is idempotent by its id.

import { mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { randomBytes } from 'node:crypto'
import { basename, join } from 'node:path'
import { isRunning, processStart } from '../data/lock.ts'
import type { Order } from './orders.ts'
import { orderKey } from './orders.ts'
import { SpoolFile } from './spool-file.ts'
import type { SpoolEvents } from './spool-file.ts'

export interface Spool {
  /** Orders that are not done. */
  readonly size: number
  /** How many of these orders wait in memory, because the disk refuses writes. */
  readonly unwritten: number
  /** The disk refuses what is appended. */
  readonly isFailing: boolean
  /** So many orders wait in memory that no more should come. */
  readonly isFull: boolean
  /** Resolves when the order is on the disk; where it rejects, the order waits in memory until the disk has room. */
  append(order: Order): Promise<void>
  /** The order needs to be kept no longer. */
  remove(key: string): void
  /** Tries a disk that refused. */
  retry(): Promise<void>
  /** Takes over the orders of dead processes. This process' file has them before the dead process' file is removed. */
  takeOver(): Promise<readonly Order[]>
  /** A settlement that came too late to be charged, for the operator to look at. */
  late(order: Order): Promise<void>
  /** How many late orders there are. */
  countLate(): Promise<number>
  /** Shows other processes that this process lives. */
  touch(): Promise<void>
  close(): Promise<void>
}

/** A live process touches its file every 10 s. Where its pid does not prove its death, a file untouched for so long does. */
const staleMs = 60_000
/** A few MB. Running work may still add one order for each of its holds. */
const mostUnwritten = 10_000
const lateName = 'late.ndjson'

export async function openSpool(dir: string, events: SpoolEvents = {}): Promise<Spool> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const own = await SpoolFile.create(newPath(dir), events)
  const append = (order: Order) => own.write(orderKey(order), JSON.stringify(order))
  /** Files taken from dead processes while the disk refused writes. They are removed when this process' file has their orders. */
  const taken = new Set<string>()
  const removeTaken = async () => {
    if (own.isFailing) return
    for (const path of taken) {
      await rm(path, { force: true }).then(
        () => taken.delete(path),
        () => undefined, // the next retry tries again
      )
    }
  }
  let late: Promise<void> = Promise.resolve()
  return {
    get size() {
      return own.size
    },
    get unwritten() {
      return own.unwritten
    },
    get isFailing() {
      return own.isFailing
    },
    get isFull() {
      return own.unwritten >= mostUnwritten
    },
    append,
    remove: (key) => own.remove(key),
    async retry() {
      await own.retry()
      await removeTaken()
    },
    async takeOver() {
      const found: Order[] = []
      for (const name of await readdir(dir)) {
        const isOwn = name === basename(own.path) || taken.has(join(dir, name))
        if (isOwn || !(await isAbandoned(dir, name))) continue
        const path = await take(dir, name)
        if (path === undefined) continue
        const orders = parseSpool(await readFile(path, 'utf8'))
        // Orders that the disk refuses stay in the file that was taken.
        const written = Promise.all(orders.map(append))
        await written.then(() => rm(path, { force: true })).catch(() => taken.add(path))
        found.push(...orders)
      }
      return found
    },
    late(order) {
      const line = `${JSON.stringify(order)}\n`
      const written = late.then(() => appendWhole(join(dir, lateName), line))
      late = written.catch(() => undefined)
      return written
    },
    async countLate() {
      const text = await readFile(join(dir, lateName), 'utf8').catch(() => '')
      return text.split('\n').length - 1
    },
    touch: () => own.touch(),
    async close() {
      await own.close()
      await removeTaken()
    },
  }
}

const host = hostname().replaceAll(/[^\w.]/g, '_')

function newPath(dir: string): string {
  const owner = `${host}-${process.pid}-${processStart(process.pid)}`
  return join(dir, `spool-${owner}-${randomBytes(6).toString('hex')}.ndjson`)
}

async function isAbandoned(dir: string, name: string): Promise<boolean> {
  const match = /^spool-([^-]+)-(\d+)-(?:([^-]*)-)?[0-9a-f]+\.ndjson$/.exec(name)
  if (!match) return false
  const [, owner, pid, start] = match
  if (owner === host && !isAlive(Number(pid), start)) return true
  const found = await stat(join(dir, name)).catch(() => undefined)
  return found !== undefined && Date.now() - found.mtimeMs > staleMs
}

/** Judges by the pid alone where the system does not tell when the process started. */
function isAlive(pid: number, start = ''): boolean {
  if (!isRunning(pid)) return false
  const found = processStart(pid)
  return start === '' || found === '' || found === start
}

/** Only one process wins this; the others find the name gone. */
async function take(dir: string, name: string): Promise<string | undefined> {
  const path = newPath(dir)
  await rm(join(dir, `${name}.new`), { force: true })
  return rename(join(dir, name), path).then(
    () => path,
    () => undefined,
  )
}

/** The orders that are not done, in order. A torn last line is skipped: nobody was told that it was written. */
function parseSpool(text: string): readonly Order[] {
  const live = new Map<string, Order>()
  for (const line of text.split('\n')) {
    try {
      const record: Order | { readonly done: string } = JSON.parse(line)
      if ('done' in record) live.delete(record.done)
      else live.set(orderKey(record), record)
    } catch {
      continue
    }
  }
  return [...live.values()]
}

/** Appends the whole line or nothing, because half a line would spoil the next one. */
async function appendWhole(path: string, line: string): Promise<void> {
  const file = await open(path, 'a', 0o600)
  try {
    const { size } = await file.stat()
    try {
      await file.appendFile(line)
      await file.datasync()
    } catch (error) {
      await file.truncate(size)
      throw error
    }
  } finally {
    await file.close()
  }
}
