// A redis-server as a child that never outlives this process: it has a session of its own, so that Ctrl-C does not
// reach it, and gets SIGTERM when the pipe from this process closes, however this process ends (kill -9 too).
// This file restarts nothing: embedded.ts and the tests decide that.

import { spawn } from 'node:child_process'
import type { ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'

export type RedisChild = ChildProcessByStdio<Writable, Readable, null>

// The shell becomes the server by exec, so the child's pid and exit code are the server's own. A subshell stays behind,
// blocked in `read`: end of file means that this process has gone; a line means that the server has ended.
const watched = `
exec 3<&0 </dev/null
server=$$
{ read -r word <&3; [ -n "$word" ] || kill -TERM $server; } >/dev/null 2>&1 &
exec "$@" 2>&1 3<&-
`

/** `args` are redis-server's; `dir` is its working folder, where it keeps its files (as an argument, the path would have to be quoted as redis-server demands). */
export function spawnRedis(server: string, args: readonly string[], dir: string): RedisChild {
  const child = spawn('/bin/sh', ['-c', watched, 'sh', server, ...args], {
    cwd: dir,
    detached: true,
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, LC_ALL: 'C' },
  })
  child.on('error', () => undefined) // hasEnded returns true then
  child.stdin.on('error', () => undefined) // EPIPE: the watching subshell was killed before it got the line
  child.once('exit', () => child.stdin.end('gone\n'))
  return child
}

/** Also true of a server that could not be started: its folder is gone, or the system has no more processes. */
function hasEnded(child: RedisChild): boolean {
  return child.pid === undefined || child.exitCode !== null || child.signalCode !== null
}

export async function processEnd(child: RedisChild): Promise<void> {
  if (!hasEnded(child)) await once(child, 'exit')
}

/** Sends the signal and waits for the end; SIGKILL follows after `patienceMs`. */
export async function endRedis(
  child: RedisChild,
  signal: 'SIGTERM' | 'SIGKILL' = 'SIGTERM',
  patienceMs = 10_000,
): Promise<void> {
  if (hasEnded(child)) return
  const end = processEnd(child)
  const last = setTimeout(() => child.kill('SIGKILL'), patienceMs)
  child.kill(signal)
  await end
  clearTimeout(last)
}

/** Resolves when the server answers on its socket and has loaded its data; rejects when the server ends before that, or after `timeoutMs`. */
export async function redisAnswers(
  child: RedisChild,
  socket: string,
  timeoutMs: number,
): Promise<void> {
  let said = ''
  const hear = (chunk: Buffer) => void (said = (said + chunk.toString()).slice(-2000))
  child.stdout.on('data', hear)
  try {
    const deadline = performance.now() + timeoutMs
    while (!(await ping(socket))) {
      if (hasEnded(child)) throw new Error(`redis-server ended at once. It said:\n${said.trim()}`)
      if (performance.now() > deadline) throw new Error('redis-server did not get ready in time')
      await wait(10)
    }
  } finally {
    child.stdout.off('data', hear)
  }
}

/** Whether a server answers there and is not loading. A refusal that asks for a password counts as an answer. */
export function ping(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket)
    connection.setTimeout(1000, () => connection.destroy())
    connection.once('connect', () => connection.write('PING\r\n'))
    connection.once('data', (reply) => {
      resolve(!reply.toString('latin1').startsWith('-LOADING'))
      connection.destroy()
    })
    connection.on('error', () => undefined)
    connection.once('close', () => resolve(false))
  })
}

/** Whether any process listens on this socket, even one that hangs. */
export function listens(socket: string): Promise<boolean> {
  return new Promise((resolve) => {
    const connection = connect(socket)
    connection.once('connect', () => {
      connection.destroy()
      resolve(true)
    })
    connection.once('error', (error: NodeJS.ErrnoException) => resolve(error.code === 'EAGAIN'))
  })
}
