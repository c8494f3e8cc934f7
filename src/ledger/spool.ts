// Ledger writes on disk: orders that Redis could not be told yet, and credits until Redis has surely kept them. Each
// process has one append-only ndjson file; a live process takes over the file of a dead one by an exclusive rename. A
// file that is taken although its process lives does no harm: every order is idempotent by its id.

import { mkdir, open, readFile, readdir, rename, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { randomBytes } from 'node:crypto'
import { basename, dirname, join } from 'node:path'
import { isRunning, processStart } from '../data/lock.ts'
import type { Order } from './orders.ts'
import { orderKey } from './orders.ts'
import { SpoolFile } from './spool-file.ts'
import type { SpoolEvents } from './spool-file.ts'

/** A live process touches its file every 10 s. Where a pid does not prove that its process is dead, a file that was not touched for this long does. */
const staleMs = 60_000
/** A few MB. Running work may still add one order for each of its holds. */
const mostUnwritten = 10_000

export async function openSpool(dir: string, events: SpoolEvents = {}): Promise<Spool> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const path = newPath(dir)
  return new Spool(path, await open(path, 'ax', 0o600), events)
}

/** The orders that are not done: a live line each in the file of this process. */
export class Spool extends SpoolFile {
  /** Files taken from dead processes while the disk refused writes. They are removed when this process' file has their orders. */
  readonly #taken = new Set<string>()
  #lateWritten: Promise<void> = Promise.resolve()

  /** So many orders wait in memory that no more should come. */
  get isFull(): boolean {
    return this.unwritten >= mostUnwritten
  }

  /** Resolves when the order is on the disk; where it rejects, the order waits in memory until the disk has room. */
  append(order: Order): Promise<void> {
    return this.write(orderKey(order), JSON.stringify(order))
  }

  override async retry(): Promise<void> {
    await super.retry()
    if (this.isFailing) return
    for (const path of this.#taken) {
      await rm(path, { force: true }).then(
        () => this.#taken.delete(path),
        () => undefined, // the next retry tries again
      )
    }
  }

  /** Takes over the orders of dead processes. This process' file has them before the dead process' file is removed. */
  async takeOver(): Promise<readonly Order[]> {
    const dir = dirname(this.path)
    const found: Order[] = []
    for (const name of await readdir(dir)) {
      const isOwn = name === basename(this.path) || this.#taken.has(join(dir, name))
      if (isOwn || !(await isAbandoned(dir, name))) continue
      const path = await take(dir, name)
      if (path === undefined) continue
      const orders = parseSpool(await readFile(path, 'utf8'))
      // Orders that the disk refuses stay in the file that was taken.
      const written = Promise.all(orders.map((order) => this.append(order)))
      await written.then(() => rm(path, { force: true })).catch(() => this.#taken.add(path))
      found.push(...orders)
    }
    return found
  }

  /** Keeps an order that can no longer be carried out, for the operator to look at. */
  late(order: Order): Promise<void> {
    const line = `${JSON.stringify(order)}\n`
    const written = this.#lateWritten.then(() => appendWhole(this.#latePath, line))
    this.#lateWritten = written.catch(() => undefined)
    return written
  }

  /** How many late orders there are. */
  async countLate(): Promise<number> {
    const text = await readFile(this.#latePath, 'utf8').catch(() => '')
    return text.split('\n').length - 1
  }

  get #latePath(): string {
    return join(dirname(this.path), 'late.ndjson')
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
