// The gateway's own Redis: found or fetched, started on a unix socket that only this user can reach, with its data in
// the data folder. It is started again when it dies, and it ends when the gateway ends, however the gateway ends. This
// file opens no client connection to it.

import {
  chmod,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  rmdir,
  unlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import type { Log } from '../../log.ts'
import { endRedis, listens, processEnd, redisAnswers, spawnRedis } from './child.ts'
import type { RedisChild } from './child.ts'
import { findRedisServer } from './find.ts'

export interface EmbeddedRedis {
  /** Stays the same when the server is started again. */
  readonly socket: string
  /** The pid of the server that runs now, or ran last. */
  readonly pid: number
  /** Ends the server. Call it after everything that uses Redis has closed. */
  stop(): Promise<void>
}

export interface EmbeddedOptions {
  /** It must exist, and the caller must hold its lock: two servers on one folder would destroy each other's file. */
  readonly dataDir: string
  readonly log: Pick<Log, 'info' | 'warn'>
}

const recordName = 'redis.json'
/** How long the server may load its file: 10 GB take about a minute. */
const loadMs = 600_000
const firstPauseMs = 100
const lastPauseMs = 5000
/** A server that lived this long has not failed at its start. */
const healthyMs = 30_000

/** The socket of the server that a gateway started on this data folder; the server may be gone. */
export function recordedSocket(dataDir: string): Promise<string | undefined> {
  return readRecord(join(dataDir, recordName))
}

/** Resolves when the server has loaded its data and answers. */
export async function startEmbeddedRedis({
  dataDir,
  log,
}: EmbeddedOptions): Promise<EmbeddedRedis> {
  const record = join(dataDir, recordName)
  await outlive(record)
  const server = resolve(await findRedisServer(dataDir, { log }))
  const dir = join(dataDir, 'redis')
  await mkdir(dir, { recursive: true })
  await chmod(dir, 0o700)
  const folder = await socketFolder()
  const socket = join(folder, socketName)
  await writeRecord(record, socket)
  const start = async () => {
    await mkdir(folder, { recursive: true, mode: 0o700 }) // a cleaner of /tmp may have removed it
    return spawnRedis(server, serverArguments(socket), dir)
  }
  const tidy = async () => {
    await removeSocket(socket)
    await rm(record, { force: true })
  }
  const child = await start()
  try {
    await redisAnswers(child, socket, loadMs)
  } catch (error) {
    await endRedis(child)
    await tidy()
    throw error
  }
  return keepRunning({ first: child, socket, start, tidy, log })
}

function serverArguments(socket: string): readonly string[] {
  const settings = {
    port: '0',
    unixsocket: socket,
    unixsocketperm: '700',
    appendonly: 'yes',
    appendfsync: 'everysec',
    'aof-load-truncated': 'yes',
    save: '',
    'maxmemory-policy': 'noeviction',
    // Redis reserves so much for the first entries of each account's journal; by default 4096.
    'stream-node-max-bytes': '1024',
    loglevel: 'warning',
  }
  return Object.entries(settings).flatMap(([name, value]) => [`--${name}`, value])
}

interface KeptRedis {
  readonly first: RedisChild
  readonly socket: string
  readonly start: () => Promise<RedisChild>
  readonly tidy: () => Promise<void>
  readonly log: Pick<Log, 'info' | 'warn'>
}

function keepRunning({ first, socket, start, tidy, log }: KeptRedis): EmbeddedRedis {
  const stopping = new AbortController()
  let child = first
  let pauseMs = firstPauseMs
  const startAgain = async () => {
    pauseMs = Math.min(2 * pauseMs, lastPauseMs)
    try {
      child = await start()
    } catch (error) {
      log.warn({ err: error }, 'The embedded Redis cannot be started')
    }
  }
  const run = async () => {
    while (!stopping.signal.aborted) {
      const since = performance.now()
      const said = await lastWords(child)
      if (stopping.signal.aborted) return
      if (performance.now() - since > healthyMs) pauseMs = firstPauseMs
      log.warn({ said }, 'The embedded Redis died: it is started again')
      await wait(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined)
      if (!stopping.signal.aborted) await startAgain()
    }
  }
  const running = run()
  return {
    socket,
    get pid() {
      return child.pid ?? 0
    },
    async stop() {
      stopping.abort()
      await endRedis(child)
      await running
      await endRedis(child)
      await tidy()
    },
  }
}

/** Waits for the server's end; resolves with its exit and the last of its output. */
async function lastWords(child: RedisChild): Promise<string> {
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString()).slice(-2000)
  })
  await processEnd(child)
  return [child.signalCode ?? `exit ${child.exitCode}`, said.trim()].join('\n').trim()
}

const socketName = 'redis.sock'
const folderPrefix = 'tollgate-'

/** Not in the data folder: a socket's path may have at most 107 bytes (103 on macOS), but a data folder's path any length. */
async function socketFolder(): Promise<string> {
  const suffix = `/${folderPrefix}XXXXXX/${socketName}`
  const fits = Buffer.byteLength(tmpdir() + suffix) <= 103
  return mkdtemp(join(fits ? tmpdir() : '/tmp', folderPrefix))
}

async function writeRecord(record: string, socket: string): Promise<void> {
  await writeFile(`${record}.new`, `${JSON.stringify({ socket })}\n`, { mode: 0o600 })
  await rename(`${record}.new`, record)
}

/** Waits for the server of an earlier gateway: after that gateway was killed, its server needs a moment to write its file and end. */
async function outlive(record: string): Promise<void> {
  const socket = await readRecord(record)
  if (!socket) return
  const deadline = performance.now() + 15_000
  while (await listens(socket)) {
    if (performance.now() > deadline) {
      throw new Error(
        `the embedded Redis of an earlier run does not end (${socket}). End it first.`,
      )
    }
    await wait(50)
  }
  await removeSocket(socket)
}

async function readRecord(record: string): Promise<string | undefined> {
  try {
    const { socket } = JSON.parse(await readFile(record, 'utf8')) as { socket?: unknown }
    return typeof socket === 'string' ? socket : undefined
  } catch {
    return undefined // there is no record, or only half of one: no server to wait for
  }
}

/** Removes only what this file can have made, whatever the record says. */
async function removeSocket(socket: string): Promise<void> {
  const folder = dirname(socket)
  if (basename(socket) !== socketName || !basename(folder).startsWith(folderPrefix)) return
  await unlink(socket).catch(() => undefined) // the server removes it itself unless it was killed
  await rmdir(folder).catch(() => undefined) // it is gone, or it is not empty and so not ours
}
