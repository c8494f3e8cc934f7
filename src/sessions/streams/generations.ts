// The messages that this process generates. A generation owns its backend, not any client: it goes on when its readers
// leave, and ends in one place, with its message finished or withdrawn, whatever happens.

import { begin, openRelay } from '../../chat/generation.ts'
import { givenUp } from '../../chat/generating.ts'
import type { Generation, GenerationOptions } from '../../chat/generating.ts'
import { latin1, linesOf } from '../../chat/frames.ts'
import { Relay } from '../../chat/relay.ts'
import { GatewayError, asGatewayError, errorBody } from '../../errors.ts'
import type { ErrorCode } from '../../errors.ts'
import type { Answer, Exchange } from '../../exchange.ts'
import { ended, statusAfter, statusOf, usedBy } from './ended.ts'
import type { Fate } from './ended.ts'
import type { StoredMessage } from '../message.ts'
import { Recording } from './recording.ts'
import type { BeginRequest, Owned, StreamRows } from './stream-rows.ts'

/** What a send has stored. */
export interface Sent {
  readonly owned: Owned
  /** Of all its messages. */
  readonly ids: readonly string[]
  readonly claim?: BeginRequest['claim']
}

export interface Start extends Sent {
  /** The row in progress. */
  readonly draft: StoredMessage
  readonly options: Omit<GenerationOptions, 'grammar'>
}

export interface RunningGeneration {
  readonly start: Start
  readonly recording: Recording
  /** The answer may begin: first content, or it was waited for long enough; or a refusal to relay. Rejects with what it failed of. */
  readonly opened: Promise<Answer | undefined>
  /** Its work has ended: settled, and its readers have been told. Undefined where nothing is left of it. */
  readonly done: Promise<StoredMessage | undefined>
  cancel(): void
}

export interface GenerationsOptions {
  readonly rows: StreamRows
  readonly replayBytes: number
}

/** For what Redis could not be told at the end. */
const againMs = 5000

export class Generations {
  readonly #options: GenerationsOptions
  readonly #running = new Map<string, RunningGeneration>()
  /** Finished, and Redis has not been told. */
  readonly #untold = new Map<string, Told>()
  /** To be taken back, which Redis has not been told either. */
  readonly #unwithdrawn = new Map<string, Sent>()
  readonly #again: NodeJS.Timeout

  constructor(options: GenerationsOptions) {
    this.#options = options
    this.#again = setInterval(() => void this.#tellAgain(), againMs).unref()
  }

  find(message: string): RunningGeneration | undefined {
    return this.#running.get(message)
  }

  /** Also one that has ended here, while Redis does not know it. */
  recordingOf(message: string): Recording | undefined {
    return this.find(message)?.recording ?? this.#untold.get(message)?.recording
  }

  /** All of a session that was deleted. */
  cancelIn(session: string): void {
    for (const { start, cancel } of this.#running.values()) {
      if (start.owned.session === session) cancel()
    }
  }

  /** Redis is back. */
  wake(): void {
    for (const { recording } of this.#running.values()) recording.wake()
    void this.#tellAgain()
  }

  /** Leaves nothing of a send that may have been stored and was refused. Where Redis is away, as soon as it is back. */
  async withdraw({ owned, ids, claim }: Sent): Promise<void> {
    const sent = { owned, ids, ...(claim && { claim }) }
    try {
      await this.#options.rows.withdraw(owned, sent)
      this.#unwithdrawn.delete(owned.message)
    } catch {
      this.#unwithdrawn.set(owned.message, sent)
    }
  }

  start(x: Exchange, start: Start): RunningGeneration {
    const { owned, options } = start
    const recording = new Recording({ ...this.#options, owned, stop: (code) => stop(code) })
    const generation = begin(x, { ...options, grammar: recording })
    const { deadline, meter } = generation
    // What is finished already is not undone: its usage is still to come.
    const stop = (code: ErrorCode) => {
      if (meter.finished) return
      const error = new GatewayError(code)
      if (generation.finishesAlone) generation.cancelled ??= error
      else deadline.depart(error)
    }
    const opened = Promise.withResolvers<Answer | undefined>()
    // Whoever waits for it hears of it; a resumed reader does not.
    opened.promise.catch(() => undefined)
    const timer = setTimeout(() => {
      generation.isCommitted = true
      opened.resolve(undefined)
    }, options.limits.sessionFirstEventMs)
    const live = { start, recording, generation, opened }
    const done = this.#live(live).finally(() => {
      clearTimeout(timer)
      this.#running.delete(owned.message)
    })
    const cancel = () => stop('message_cancelled')
    const running = { start, recording, opened: opened.promise, done, cancel }
    this.#running.set(owned.message, running)
    return running
  }

  /** What Redis has not been told waits at most `boundMs` longer. */
  async close(boundMs = 5000): Promise<void> {
    clearInterval(this.#again)
    const bound = new Promise<void>((resolve) => setTimeout(resolve, boundMs).unref())
    const all = Promise.allSettled([...this.#running.values()].map(({ done }) => done))
    await Promise.race([all.then(() => this.#tellAgain()), bound])
  }

  async #live(live: Live): Promise<StoredMessage | undefined> {
    const { recording, generation, opened } = live
    try {
      const relay = await openRelay(generation, opened.promise)
      if (!(relay instanceof Relay)) return await this.#refused(live, relay)
      opened.resolve(undefined)
      const { ending, frames } = await relay.pump(recording)
      return await this.#finish(live, frames, statusOf(ending))
    } catch (thrown) {
      const failure = asGatewayError(await givenUp(generation, thrown))
      const error = generation.cancelled ?? failure
      const isKept = error.code === 'message_cancelled' || (await isSettled(opened.promise))
      if (!isKept) return await this.#withdraw(live, () => opened.reject(error))
      opened.resolve(undefined)
      const data = latin1(errorBody(error, generation.x.id))
      return await this.#fail(live, data, { status: statusAfter(error), error })
    }
  }

  /** The backend's own refusal: the client's answer, or behind our headers a failed message. */
  async #refused(live: Live, answer: Answer): Promise<StoredMessage | undefined> {
    const { opened } = live
    if (!(await isSettled(opened.promise))) {
      return await this.#withdraw(live, () => opened.resolve(answer))
    }
    const error = new GatewayError('upstream_error', { source: 'backend' })
    const data = 'body' in answer ? linesOf(answer.body) : ''
    return await this.#fail(live, data, { status: 'failed', error })
  }

  #fail(live: Live, data: string, fate: Fate): Promise<StoredMessage> {
    return this.#finish(live, live.recording.lastFrame(data), fate)
  }

  async #finish(
    { recording, generation, start }: Live,
    frames: string,
    fate: Fate,
  ): Promise<StoredMessage> {
    const message = ended(start.draft, {
      ...fate,
      ...usedBy(generation.x.facts),
      said: recording.said(),
    })
    const told = { recording, owned: start.owned, message }
    if (!(await this.#tell(told, frames))) this.#untold.set(message.id, told)
    return message
  }

  async #tell({ recording, owned, message }: Told, frames: string): Promise<boolean> {
    const isTold = await recording.finish(frames, JSON.stringify(message))
    // Others have ended it, by a checkpoint. The charge is right, also where its row can't be told of it.
    if (recording.isLost) {
      await this.#options.rows.amend(owned, () => message).catch(() => undefined)
    }
    return isTold
  }

  async #withdraw({ start, recording }: Live, tell: () => void): Promise<undefined> {
    recording.drop()
    await this.withdraw(start)
    tell()
  }

  async #tellAgain(): Promise<void> {
    for (const [message, told] of this.#untold) {
      if (await this.#tell(told, '')) this.#untold.delete(message)
    }
    for (const sent of this.#unwithdrawn.values()) await this.withdraw(sent)
  }
}

interface Told {
  readonly recording: Recording
  readonly owned: Owned
  /** As it ended. */
  readonly message: StoredMessage
}

interface Live {
  readonly start: Start
  readonly recording: Recording
  readonly generation: Generation
  readonly opened: PromiseWithResolvers<Answer | undefined>
}

/** Already now. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const not = Symbol('not')
  return (await Promise.race([promise, Promise.resolve(not)])) !== not
}
