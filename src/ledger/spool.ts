// Ledger writes on disk: what Redis could not be told yet, and credits until Redis has surely kept them.
// One append-only ndjson file a process; what a dead process left is taken over by an exclusive rename.
// A file that is taken although its process lives does no harm: every order is idempotent by its id.

import { mkdir, open, readFile, readdir, rename, stat, unlink } from 'node:fs/promises'
import type { FileHandle } from 'node:fs/promises'
import { hostname } from 'node:os'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Order } from './orders.ts'
import { orderKey } from './orders.ts'

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
const compactAboveBytes = 4 * 1024 * 1024

export async function openSpool(dir: string): Promise<Spool> {
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const host = hostname().replaceAll(/[^\w.]/g, '_')
  const ownPrefix = `spool-${host}-${process.pid}-`
  const newPath = () => join(dir, `${ownPrefix}${randomBytes(6).toString('hex')}.ndjson`)
  const log = await openLog(newPath())
  return {
    get size() {
      return log.live.size
    },
    append(order) {
      return log.write(orderKey(order), JSON.stringify(order))
    },
    remove(key) {
      log.remove(key)
    },
    async takeOver() {
      const taken: Order[] = []
      for (const name of await readdir(dir)) {
        if (!(await isAbandoned(dir, name, host, log.path))) continue
        const path = newPath()
        // Only one process wins this; the others find the name gone.
        const won = await rename(join(dir, name), path).then(
          () => true,
          () => false,
        )
        if (!won) continue
        const orders = parseSpool(await readFile(path, 'utf8'))
        await Promise.all(orders.map((order) => log.write(orderKey(order), JSON.stringify(order))))
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
    touch: () => log.touch(),
    close: () => log.close(),
  }
}

async function isAbandoned(dir: string, name: string, host: string, own: string): Promise<boolean> {
  const match = /^spool-(.+)-(\d+)-[0-9a-f]+\.ndjson$/.exec(name)
  const path = join(dir, name)
  if (!match || path === own) return false
  if (match[1] === host && !isRunning(Number(match[2]))) return true
  const found = await stat(path).catch(() => undefined)
  return found !== undefined && Date.now() - found.mtimeMs > staleMs
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
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

interface SpoolLog {
  readonly path: string
  readonly live: ReadonlyMap<string, string>
  write(key: string, line: string): Promise<void>
  remove(key: string): void
  touch(): Promise<void>
  close(): Promise<void>
}

/** The file, with one write and one fsync for all that waits. */
async function openLog(path: string): Promise<SpoolLog> {
  let file: FileHandle = await open(path, 'ax', 0o600)
  const live = new Map<string, string>()
  let waiting: { text: string; done: () => void; failed: (error: unknown) => void }[] = []
  let flushing: Promise<void> | undefined
  let bytes = 0
  let compactAtBytes = compactAboveBytes

  const flush = async () => {
    while (waiting.length > 0) {
      const batch = waiting
      waiting = []
      try {
        await writeBatch(batch.map(({ text }) => text).join(''))
        for (const { done } of batch) done()
      } catch (error) {
        for (const { failed } of batch) failed(error)
      }
    }
    flushing = undefined
  }
  const writeBatch = async (text: string) => {
    if (live.size === 0 || bytes > compactAtBytes) await rewrite()
    else {
      await file.appendFile(text)
      bytes += Buffer.byteLength(text)
    }
    await file.datasync()
  }
  /** Only what is live; the new file is whole before it takes the old one's place. */
  const rewrite = async () => {
    const text = [...live.values()].map((line) => `${line}\n`).join('')
    const fresh = await open(`${path}.new`, 'w', 0o600)
    await fresh.appendFile(text)
    await fresh.datasync()
    await rename(`${path}.new`, path)
    await file.close()
    file = fresh
    bytes = Buffer.byteLength(text)
    compactAtBytes = Math.max(compactAboveBytes, 2 * bytes)
  }
  const push = (text: string) => {
    const written = new Promise<void>((done, failed) => waiting.push({ text, done, failed }))
    flushing ??= flush()
    return written
  }
  return {
    path,
    live,
    write(key, line) {
      live.set(key, line)
      return push(`${line}\n`)
    },
    remove(key) {
      // Losing this line costs a replay, no more.
      if (live.delete(key)) push(`${JSON.stringify({ done: key })}\n`).catch(() => undefined)
    },
    async touch() {
      const now = new Date()
      await file.utimes(now, now)
      if (await isAt(file, path)) return
      // Taken although we live, after a long freeze: go on in a file of the same name.
      await rewrite()
    },
    async close() {
      await flushing
      const isEmpty = live.size === 0
      await file.close()
      if (isEmpty) await unlink(path).catch(() => undefined)
    },
  }
}

async function isAt(file: FileHandle, path: string): Promise<boolean> {
  const [own, found] = await Promise.all([file.stat(), stat(path).catch(() => undefined)])
  return found?.ino === own.ino
}
