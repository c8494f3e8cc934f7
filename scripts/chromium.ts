// Runs Debian's Chromium without a window, in a profile of its own, and controls it by its DevTools protocol. The
// browser ends with the stack that it was opened on. This file knows nothing of the pages.

import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { promisify } from 'node:util'
import { installPackage } from './apt.ts'

export interface Chromium {
  readonly version: string
  /** Without the session of a page, the message goes to the browser itself. */
  send(method: string, params?: object, session?: string): Promise<Told>
  /** Calls `hear` for every event of every page, until the browser ends. */
  listen(hear: (event: Heard) => void): void
}

export type Told = Readonly<Record<string, unknown>>

export interface Heard {
  readonly method: string
  readonly params: Told
  readonly sessionId?: string
}

const run = promisify(execFile)
const program = 'chromium'

/** `words` are added to the browser's command line, such as a page to open. */
export async function openChromium(
  undo: AsyncDisposableStack,
  words: readonly string[] = [],
): Promise<Chromium> {
  const name = await ensureChromium()
  const profile = await mkdtemp(join(tmpdir(), 'tollgate-browser-'))
  undo.defer(() => rm(profile, { recursive: true, force: true, maxRetries: 5 }))
  const always = ['--headless', '--disable-gpu', '--no-first-run', '--remote-debugging-pipe']
  // Chromium refuses to run as root with its sandbox.
  const sandbox = process.getuid?.() === 0 ? ['--no-sandbox'] : []
  const child = spawn(program, [...always, ...sandbox, `--user-data-dir=${profile}`, ...words], {
    stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'exit')
  undo.defer(async () => {
    child.kill('SIGTERM')
    await ended
  })
  return { version: /[\d.]+/.exec(name)?.[0] ?? name, ...protocolOf(child) }
}

/** Resolves with what the browser says of its version. As root it is installed first, where it is missing. */
export async function ensureChromium(): Promise<string> {
  const version = async () => (await run(program, ['--version'])).stdout.trim()
  return await version().catch(async (cause: unknown) => {
    await install(cause)
    return await version()
  })
}

/** For libraries that start the browser themselves. */
export async function chromiumPath(): Promise<string> {
  await ensureChromium()
  return (await run('sh', ['-c', `command -v ${program}`])).stdout.trim()
}

async function install(cause: unknown): Promise<void> {
  await installPackage(program).catch(() => {
    throw new Error(
      `a browser is needed (Debian: apt install --no-install-recommends ${program})`,
      { cause },
    )
  })
}

interface Message extends Heard {
  readonly id?: number
  readonly result?: Told
  readonly error?: { readonly message: string }
}

/** Messages are JSON ended by NUL; Chromium reads them from its file 3 and writes them to its file 4. */
function protocolOf(child: ChildProcess): Pick<Chromium, 'send' | 'listen'> {
  const orders = child.stdio[3] as Writable
  const words = child.stdio[4] as Readable
  const waiting = new Map<number, PromiseWithResolvers<Told>>()
  const listeners: ((event: Heard) => void)[] = []
  let last = 0
  let rest = ''
  // A browser that has ended accepts nothing more: its exit rejects the calls that wait.
  orders.on('error', () => {})
  child.once('exit', () => {
    for (const { reject } of waiting.values()) reject(new Error('the browser has ended'))
  })
  const take = ({ id, result, error, ...event }: Message) => {
    if (id === undefined) return listeners.forEach((hear) => hear(event))
    const asked = waiting.get(id)
    waiting.delete(id)
    if (error) asked?.reject(new Error(error.message))
    else asked?.resolve(result ?? {})
  }
  words.setEncoding('utf8').on('data', (text: string) => {
    const messages = (rest + text).split('\0')
    rest = messages.pop() ?? ''
    for (const message of messages) take(JSON.parse(message) as Message)
  })
  return {
    send(method, params = {}, sessionId) {
      const asked = Promise.withResolvers<Told>()
      waiting.set(++last, asked)
      orders.write(`${JSON.stringify({ id: last, method, params, sessionId })}\0`)
      return asked.promise
    },
    listen: (hear) => void listeners.push(hear),
  }
}
