// Questions and answers between the supervisor and a worker, over the pipe that Node keeps between the two; the worker's
// first question is for its task.

import type { Shown } from '../config/diff.ts'
import type { FileContents } from '../config/read-files.ts'
import type { Fixed } from '../config/restart.ts'
import type { WorkerPlace } from '../config/workers.ts'
import { messageOf } from '../errors.ts'
import { PatientTimer } from '../sharing/patience.ts'

/** Set in a worker's environment. */
export const taskVariable = 'TOLLGATE_WORKER'

export interface WorkerTask extends WorkerPlace {
  readonly file: string
  /** The port of the others; without it, the worker takes that of the configuration. */
  readonly port: number | undefined
  /** Of the embedded Redis, if there is one. */
  readonly redisSocket: string | undefined
  readonly format: 'json' | 'pretty'
  /** The files as the supervisor has read them, by path: all workers have the same configuration. */
  readonly contents: FileContents
  /** What the gateway runs with. In the files, keys that need a restart may have other values by now. */
  readonly running: Shown & { readonly fixed: Fixed }
}

/** Where a worker serves clients. A URL has no port where it is its scheme's own, 80 or 443. */
export interface ListenedAt {
  readonly address: string
  readonly port: number
}

/** A ChildProcess, or the process itself. */
export interface Pipe {
  send?(message: unknown, callback: () => void): boolean
  on(event: 'message', listener: (message: unknown) => void): unknown
  readonly connected: boolean
}

export type Answerer = (payload: unknown) => unknown

const nothing = () => undefined

interface Question {
  readonly id: number
  readonly ask: string
  readonly payload: unknown
}

interface ChannelReply {
  readonly reply: number
  readonly value?: unknown
  readonly failure?: string
}

/** The other side lives, and has not answered in time. */
export class NoAnswer extends Error {
  override readonly name = 'NoAnswer'
}

export class Channel {
  readonly #pipe: Pipe
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>()
  #last = 0

  /** Answers the other side's questions by their names. */
  constructor(pipe: Pipe, answerers: Readonly<Record<string, Answerer>>) {
    this.#pipe = pipe
    pipe.on('message', (message) => {
      if (isReply(message)) this.#settle(message)
      if (isQuestion(message)) void this.#answer(message, answerers[message.ask])
    })
  }

  /** Rejects when the other side fails, has gone, or takes longer than `boundMs`. */
  async ask(name: string, payload?: unknown, boundMs = 5000): Promise<unknown> {
    if (!this.#pipe.connected) throw new Error('the other process has gone')
    const id = ++this.#last
    const waiting = Promise.withResolvers<unknown>()
    this.#waiting.set(id, waiting)
    const fail = () => waiting.reject(new NoAnswer(`no answer to ${name}`))
    const timer = new PatientTimer(fail, boundMs)
    try {
      // Without a callback, a send to a process that ends just now is an error that ends this one.
      this.#pipe.send?.({ id, ask: name, payload } satisfies Question, nothing)
      return await waiting.promise
    } finally {
      timer.clear()
      this.#waiting.delete(id)
    }
  }

  /** Called when the other side has gone. */
  close(): void {
    for (const { reject } of this.#waiting.values()) reject(new Error('the other process has gone'))
  }

  #settle({ reply, value, failure }: ChannelReply): void {
    const waiting = this.#waiting.get(reply)
    if (failure === undefined) waiting?.resolve(value)
    else waiting?.reject(new Error(failure))
  }

  async #answer({ id, payload }: Question, answerer: Answerer | undefined): Promise<void> {
    let reply: ChannelReply
    try {
      reply = { reply: id, value: await answerer?.(payload) }
    } catch (error) {
      reply = { reply: id, failure: messageOf(error) }
    }
    if (this.#pipe.connected) this.#pipe.send?.(reply, nothing)
  }
}

function isReply(message: unknown): message is ChannelReply {
  return typeof message === 'object' && message !== null && 'reply' in message
}

function isQuestion(message: unknown): message is Question {
  return typeof message === 'object' && message !== null && 'ask' in message
}
