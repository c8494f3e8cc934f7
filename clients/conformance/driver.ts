// A running driver of a client: a process that gets lines and answers each. A driver that hangs or breaks is ended, and
// the next line gets a new one.

import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Interface } from 'node:readline'
import type { Saw } from './case.ts'
import type { Driver } from './language.ts'

/** A driver that takes longer than this hangs. The longest case takes five seconds. */
const boundMs = 120_000

export interface Told {
  readonly line: object
  /** Runs the line in a process of its own, which ends with the answer. */
  readonly env?: Readonly<Record<string, string>>
}

interface Running {
  readonly child: ChildProcess
  readonly lines: Interface
  readonly errors: string[]
}

export class DriverProcess {
  readonly #driver: Driver
  #running: Running | undefined

  constructor(driver: Driver) {
    this.#driver = driver
  }

  /** Rejects with what the driver wrote to stderr. */
  async tell({ line, env }: Told): Promise<Saw> {
    if (env) {
      const own = this.#start(env)
      return await this.#ask(own, line).finally(() => end(own))
    }
    const running = (this.#running ??= this.#start({}))
    try {
      return await this.#ask(running, line)
    } catch (error) {
      await this.end()
      throw error
    }
  }

  /** The pid of the process that takes the lines; 0 before the first line. */
  get pid(): number {
    return this.#running?.child.pid ?? 0
  }

  async end(): Promise<void> {
    if (this.#running) await end(this.#running)
    this.#running = undefined
  }

  #start(env: Readonly<Record<string, string>>): Running {
    const { command, words, env: always } = this.#driver
    const { TOLLGATE_API_KEY: _key, TOLLGATE_BASE_URL: _url, ...inherited } = process.env
    const child = spawn(command, words, { env: { ...inherited, ...always, ...env }, stdio: 'pipe' })
    const errors: string[] = []
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      errors.push(text)
      if (errors.length > 200) errors.shift()
    })
    child.stdin.on('error', () => undefined)
    child.on('error', (error) => errors.push(String(error)))
    return { child, lines: createInterface({ input: child.stdout }), errors }
  }

  async #ask({ child, lines, errors }: Running, line: object): Promise<Saw> {
    const left = new AbortController()
    const { signal } = left
    const late = AbortSignal.any([signal, AbortSignal.timeout(boundMs)])
    try {
      const answered = once(lines, 'line', { signal: late }) as Promise<[string]>
      const exited = once(child, 'exit', { signal }).then(() => undefined)
      exited.catch(() => undefined)
      child.stdin?.write(`${JSON.stringify(line)}\n`)
      const answer = await Promise.race([answered, exited])
      if (!answer) throw new Error(`the driver ended: ${errors.join('').slice(-2000)}`)
      return JSON.parse(answer[0]) as Saw
    } catch (error) {
      if (!late.aborted) throw error
      throw new Error(`no answer within ${boundMs} ms: ${errors.join('').slice(-2000)}`)
    } finally {
      left.abort()
    }
  }
}

async function end({ child, lines }: Running): Promise<void> {
  const exit =
    child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
  child.kill('SIGKILL')
  await exit
  lines.close()
}
