// What moving a file costs: time by the client's clock, CPU by the kernel's, memory by the kernel's own peak. Large
// files are moved by curl, which costs less than what it measures, small ones by bench/file-load.ts.

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Tollgate } from './contestants.ts'
import { cpuSeconds, isPinned, otherCores, peakBytes, resetPeak, rssBytes } from './processes.ts'
import type { Redis } from './redis.ts'

/** The figures of one round. A unit is a MiB or a request. */
export interface Sample {
  readonly units: number
  readonly requests: number
  readonly ms: number
  readonly cpuMs: number
  /** The peak of memory, less what a process has after one small file. NaN when the process was not fresh. */
  readonly grownMiB: number
  /** Scripts sent to Redis, and all commands with those that scripts ran. */
  readonly scripts: number
  readonly commands: number
}

interface Measuring {
  readonly units: number
  readonly requests?: number
  readonly pids: readonly number[]
  readonly redis?: Redis
  /** Memory before the measured work. */
  readonly baseBytes?: number
}

/** `run` resolves with the ms that it took by its own clock. */
export async function measured(
  { units, requests = 1, pids, redis, baseBytes = NaN }: Measuring,
  run: () => Promise<number>,
): Promise<Sample> {
  const before = await redis?.commands()
  resetPeak(pids)
  const cpu = cpuSeconds(pids)
  const ms = await run()
  const cpuMs = (cpuSeconds(pids) - cpu) * 1000
  const after = await redis?.commands()
  return {
    units,
    requests,
    ms,
    cpuMs,
    grownMiB: (peakBytes(pids) - baseBytes) / 2 ** 20,
    scripts: (after?.scripts ?? 0) - (before?.scripts ?? 0),
    commands: (after?.all ?? 0) - (before?.all ?? 0),
  }
}

export interface Caller {
  readonly gateway: Tollgate
  readonly session: string
}

/** The key header of the first account, and a session of that account. */
export async function callerOf(gateway: Tollgate): Promise<Caller> {
  const answer = await fetch(`http://127.0.0.1:${gateway.aim.port}/api/chat/sessions`, {
    method: 'POST',
    headers: { authorization: keyOf(gateway) },
  })
  if (!answer.ok) throw new Error(await answer.text())
  const { id } = (await answer.json()) as { id: string }
  return { gateway, session: id }
}

export function keyOf({ aim }: Tollgate): string {
  return /Bearer \S+/.exec(aim.headers[0] ?? '')?.[0] ?? ''
}

export interface Moved {
  readonly ms: number
  readonly bytes: number
  readonly text: string
}

export async function uploadFile({ gateway, session }: Caller, path: string): Promise<Moved> {
  const form = ['-F', `session_id=${session}`, '-F', `file=@${path}`]
  return curl([...auth(gateway), ...form, urlOf(gateway, 'upload')])
}

export async function downloadFile({ gateway }: Caller, id: string): Promise<Moved> {
  return curl([...auth(gateway), '-o', '/dev/null', urlOf(gateway, id)])
}

export async function removeFile({ gateway }: Caller, id: string): Promise<void> {
  await curl([...auth(gateway), '-X', 'DELETE', urlOf(gateway, id)])
}

/** Serves one small file in a fresh process, and resolves with the memory of that process. */
export async function freshened(caller: Caller, small: string): Promise<number> {
  await caller.gateway.restart()
  const { text } = await uploadFile(caller, small)
  await downloadFile(caller, idOf(text))
  await removeFile(caller, idOf(text))
  return rssBytes(caller.gateway.pids())
}

export function idOf(text: string): string {
  return (JSON.parse(text) as { id: string }).id
}

const auth = (gateway: Tollgate) => ['-H', `Authorization: ${keyOf(gateway)}`]
const urlOf = ({ aim }: Tollgate, what: string) => `http://127.0.0.1:${aim.port}/api/files/${what}`

/** Throws on any status but 2xx. */
export async function curl(words: readonly string[]): Promise<Moved> {
  const write = '\n%{http_code} %{time_total} %{size_download} %{size_upload}'
  const pin = isPinned ? ['taskset', '-c', otherCores] : ['env']
  const [file = '', ...args] = [...pin, 'curl', '-sS', '-w', write, ...words]
  const { stdout } = await promisify(execFile)(file, args)
  const end = stdout.lastIndexOf('\n')
  const [status = 0, seconds = 0, down = 0, up = 0] = stdout
    .slice(end + 1)
    .split(' ')
    .map(Number)
  const text = stdout.slice(0, end)
  if (status < 200 || status > 299) throw new Error(`${words.at(-1)}: ${status} ${text}`)
  return { ms: seconds * 1000, bytes: Math.max(down, up), text }
}
