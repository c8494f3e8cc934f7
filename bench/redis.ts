// The Redis behind the gateway, started like the gateway's own embedded one, but pinned away from the proxies' core,
// with its CPU and commands read out. Sends three commands over a bare socket; a client library would add commands of
// its own.

import { mkdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { ping } from '../src/redis/embedded/child.ts'
import { findRedisServer } from '../src/redis/embedded/find.ts'
import { otherCores, start, stop } from './processes.ts'

export interface Redis {
  readonly pid: number
  readonly socket: string
  readonly version: string
  commands(): Promise<RedisCommands>
  /** The memory of Redis' data, and of the structures that hold it. */
  bytes(): Promise<number>
  /** Resolves when it has ended. */
  stop(): Promise<void>
}

export interface RedisCommands {
  /** Scripts that the gateway sent, each one round trip. */
  readonly scripts: number
  /** All commands, with those that scripts ran inside Redis. */
  readonly all: number
  /** The time that the scripts took, µs. */
  readonly scriptMicros: number
}

/** `under`: a program that runs it, with its arguments. */
export async function startRedis(folder: string, under: readonly string[] = []): Promise<Redis> {
  mkdirSync(join(folder, 'redis'))
  const server = await findRedisServer(folder, { log: { info: () => undefined } })
  const socket = join(folder, 'redis.sock')
  const options = ['--port', '0', '--unixsocket', socket, '--save', '', '--maxclients', '100']
  const kept = [
    '--stream-node-max-bytes',
    '1024',
    '--appendonly',
    'yes',
    '--appendfsync',
    'everysec',
    '--dir',
    join(folder, 'redis'),
  ]
  const child = start([...under, server, ...options, ...kept], { core: otherCores })
  const deadline = performance.now() + 30_000
  while (!(await ping(socket))) {
    if (performance.now() > deadline) throw new Error('redis-server did not start')
    await wait(20)
  }
  const version = /redis_version:(\S+)/.exec(await info(socket, 'server'))?.[1] ?? ''
  return {
    pid: child.pid ?? 0,
    socket,
    version,
    commands: () => readCommands(socket),
    bytes: async () => Number(/used_memory:(\d+)/.exec(await info(socket, 'memory'))?.[1]),
    stop: () => stop(child),
  }
}

const commandLine = /cmdstat_([^:]+):calls=(\d+),usec=(\d+)/g

async function readCommands(socket: string): Promise<RedisCommands> {
  const stats = await info(socket, 'commandstats')
  let scripts = 0
  let all = 0
  let scriptMicros = 0
  for (const [, name = '', calls, micros] of stats.matchAll(commandLine)) {
    if (name === 'info' || name === 'ping') continue
    all += Number(calls)
    if (!/^(evalsha|eval|fcall)$/.test(name)) continue
    scripts += Number(calls)
    scriptMicros += Number(micros)
  }
  return { scripts, all, scriptMicros }
}

function info(socket: string, section: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const connection = connect(socket)
    connection.setEncoding('utf8')
    connection.on('connect', () => connection.write(`INFO ${section}\r\nQUIT\r\n`))
    connection.on('data', (part: string) => void (text += part))
    connection.on('error', reject)
    connection.on('close', () => resolve(text))
  })
}
