// Everything that the benchmark starts, each process pinned to a core, with what the kernel counts for it: CPU time,
// resident memory. All of it ends with the benchmark, also on Ctrl-C or when the benchmark is killed.

import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'

/** Proxies run in turn on the first core; everything else shares the other cores. */
const others = availableParallelism() - 1
export const proxyCore = '0'
export const otherCores = others > 1 ? `1-${others}` : '1'
export const isPinned = others > 0

export interface Started {
  readonly core: string
  readonly ipc?: boolean
  /** File descriptor for stdout and stderr; without one, the output is dropped. */
  readonly output?: number
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

const running = new Set<ChildProcess>()

/** The child's pid is that of the command itself, because both wrappers replace themselves by exec. */
export function start(command: readonly string[], options: Started): ChildProcess {
  const { core, ipc, output, cwd, env } = options
  const pin = isPinned ? ['taskset', '-c', core] : []
  const [file, ...args] = ['setpriv', '--pdeathsig', 'TERM', ...pin, ...command]
  const out = output ?? 'ignore'
  const child = spawn(file, args, {
    stdio: ipc ? ['ignore', 'inherit', 'inherit', 'ipc'] : ['ignore', out, out],
    cwd,
    env: { ...process.env, ...env },
  })
  running.add(child)
  child.once('exit', () => running.delete(child))
  return child
}

export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  const last = setTimeout(() => child.kill('SIGKILL'), 10_000)
  child.kill('SIGTERM')
  await ended
  clearTimeout(last)
}

export async function stopAll(): Promise<void> {
  await Promise.all([...running].map(stop))
}

/** The longest order, opening 9,000 streams, takes 20 s. */
const longestOrderMs = 180_000

/** Sends an order to a child and waits for its one reply. */
export function ask<Reply>(child: ChildProcess, order: object | string): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const onExit = () => reject(new Error('a process of the benchmark ended early'))
    const late = () => reject(new Error(`no reply to ${JSON.stringify(order).slice(0, 200)}`))
    const timer = setTimeout(late, longestOrderMs)
    child.once('exit', onExit)
    child.once('message', (reply) => {
      clearTimeout(timer)
      child.off('exit', onExit)
      resolve(reply as Reply)
    })
    child.send(order)
  })
}

/** A process and its children: nginx's master and worker. */
export function withChildren(pid: number): readonly number[] {
  const text = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1')
  return [pid, ...text.split(' ').filter(Boolean).map(Number)]
}

/** User and system time of all threads, in seconds. */
export function cpuSeconds(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + secondsOf(pid), 0)
}

/** Uses the scheduler's own count, in ns, because a tick of `stat` is 10 ms, a tenth of what a short round takes. */
function secondsOf(pid: number): number {
  const tasks = `/proc/${pid}/task`
  const ns = readdirSync(tasks).map((task) =>
    Number(readFileSync(`${tasks}/${task}/schedstat`, 'latin1').split(' ')[0]),
  )
  return ns.reduce((sum, one) => sum + one, 0) / 1e9
}

export function rssBytes(pids: readonly number[]): number {
  const pages = pids.map((pid) =>
    Number(readFileSync(`/proc/${pid}/statm`, 'latin1').split(' ')[1]),
  )
  return pages.reduce((sum, one) => sum + one, 0) * 4096
}

/** Makes the kernel record the peak anew: unlike samples, its record misses no peak. */
export function resetPeak(pids: readonly number[]): void {
  for (const pid of pids) writeFileSync(`/proc/${pid}/clear_refs`, '5')
}

export function peakBytes(pids: readonly number[]): number {
  const peaks = pids.map((pid) =>
    Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]),
  )
  return peaks.reduce((sum, one) => sum + one, 0) * 1024
}

let endedSeconds = 0

/** Keeps the CPU time of processes that are about to end; returns the sum so far. */
export function rememberEnded(pids: readonly number[]): number {
  endedSeconds += cpuSeconds(pids)
  return endedSeconds
}

/** CPU time of the whole machine, used and available, in seconds. */
export function machineSeconds(): { readonly busy: number; readonly all: number } {
  const line = readFileSync('/proc/stat', 'latin1').split('\n')[0] ?? ''
  const [user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft = 0] = line
    .split(/ +/)
    .slice(1)
    .map(Number)
  const busy = user + nice + system + irq + soft
  return { busy: busy / 100, all: (busy + idle + wait) / 100 }
}
