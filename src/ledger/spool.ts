// Ledger writes on disk: what Redis could not be told yet, and credits until Redis has surely kept them.
// One append-only ndjson file a process; what a dead process left is taken over by an exclusive rename.
// A file that is taken although its process lives does no harm: every order is idempotent by its id.

import { mkdir, open, readFile, readdir, rename, stat, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { randomBytes } from 'node:crypto'
import { basename, join } from 'node:path'
import { isRunning } from '../lock.ts'
import type { Order } from './orders.ts'
import { orderKey } from './orders.ts'
import { SpoolFile } from './spool-file.ts'

export interface Spool {
  /** Orders on disk that are not done. */
  readonly size: number
  /** Resolves when the order is on the disk. */
  append(order: Order): Promise<void>
  /** The order needs to be kept no longer. */
  remove(key: string): void
  /** Orders of dead processes; they are in this process' file before theirs is gone. */
  takeOver(): Promise<readonly Order[]>
  /** A settlement that came too late to be charged, for the operator to look at. */
  late(order: Order): Promise<void>
  /** How many of these there are. */
  countLate(): Promise<number>
  /** Says that this process lives. */
  touch(): Promise<void>
  close(): Promise<void>
}

/** A live process touches its file every 10 s. Where its pid can't be asked for, this long a silence means death. */
const staleMs = 60_000
const lateName = 'late.ndjson'

export async function openSpool(dir: string): Promise<Spool> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const own = await SpoolFile.create(newPath(dir))
  const append = (order: Order) => own.write(orderKey(order), JSON.stringify(order))
  return {
    get size() {
      return own.size
    },
    append,
    remove: (key) => own.remove(key),
    async takeOver() {
      const taken: Order[] = []
      for (const name of await readdir(dir)) {
        if (name === basename(own.path) || !(await isAbandoned(dir, name))) continue
        const path = await take(dir, name)
        if (path === undefined) continue
        const orders = parseSpool(await readFile(path, 'utf8'))
        await Promise.all(orders.map(append))
        await unlink(path)
        taken.push(...orders)
      }
      return taken
    },
    late: (order) => appendLine(join(dir, lateName), JSON.stringify(order)),
    async countLate() {
      const text = await readFile(join(dir, lateName), 'utf8').catch(() => '')
      return text.split('\n').length - 1
    },
    touch: () => own.touch(),
    close: () => own.close(),
  }
}

const host = hostname().replaceAll(/[^\w.]/g, '_')

function newPath(dir: string): string {
  return join(dir, `spool-${host}-${process.pid}-${randomBytes(6).toString('hex')}.ndjson`)
}

async function isAbandoned(dir: string, name: string): Promise<boolean> {
  const match = /^spool-(.+)-(\d+)-[0-9a-f]+\.ndjson$/.exec(name)
  if (!match) return false
  if (match[1] === host && !isRunning(Number(match[2]))) return true
  const found = await stat(join(dir, name)).catch(() => undefined)
  return found !== undefined && Date.now() - found.mtimeMs > staleMs
}

/** Only one process wins this; the others find the name gone. */
async function take(dir: string, name: string): Promise<string | undefined> {
  const path = newPath(dir)
  return rename(join(dir, name), path).then(
    () => path,
    () => undefined,
  )
}

/** What is not done, in order. A torn last line was never promised to anybody. */
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

async function appendLine(path: string, line: string): Promise<void> {
  const file = await open(path, 'a', 0o600)
  try {
    await file.appendFile(`${line}\n`)
    await file.datasync()
  } finally {
    await file.close()
  }
}
