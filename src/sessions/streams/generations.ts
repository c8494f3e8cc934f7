// The messages that this process generates. A generation depends on its backend and on no client: it goes on when its
// readers leave. Whatever happens, it ends in one place, with its message finished or withdrawn.

import { begin, openRelay } from '../../chat/attempts.ts'
import { givenUp } from '../../chat/generating.ts'
import type { Generation, GenerationOptions } from '../../chat/generating.ts'
import { latin1, linesOf } from '../../chat/frames.ts'
import { Relay } from '../../chat/relay.ts'
import { GatewayError, asGatewayError, errorBody } from '../../errors.ts'
import type { ErrorCode } from '../../errors.ts'
import type { Answer, Exchange } from '../../exchange.ts'
import { soon } from '../../sharing/patience.ts'
import { ended, statusAfter, statusOf, usedBy } from './assembly.ts'
import type { FinalStatus } from './assembly.ts'
import type { StoredMessage } from '../message.ts'
import { mostTailBytes } from './frame-log.ts'
import { Recording } from './recording.ts'
import type { BeginRequest, MessagePlace, Owned, StreamRows } from './stream-rows.ts'

/** What a send has stored. */
export interface Sent {
  readonly owned: Owned
  /** Ids of all messages of the send, the answer last. */
  readonly ids: readonly string[]
  readonly claim?: BeginRequest['claim']
}

export interface Start extends Sent {
  /** The answer's row, `in_progress`. */
  readonly draft: StoredMessage
  readonly options: Omit<GenerationOptions, 'grammar'>
  /** The options for its stream. Default: those of `Generations`. */
  readonly keeping?: GenerationsOptions
}

export interface RunningGeneration {
  readonly start: Start
  readonly recording: Recording
  /** Resolves when the answer may begin (first content, or the longest wait for it), or with a refusal to relay. Rejects with the failure. */
  readonly opened: Promise<Answer | undefined>
  /** Resolves when the generation is settled and its readers have been told; undefined when the message was withdrawn. */
  readonly done: Promise<StoredMessage | undefined>
  cancel(): void
}

export interface GenerationsOptions {
  readonly rows: StreamRows
  readonly replayBytes: number
}

/** What all messages together keep in memory of frames that Redis has, for readers that are a little behind: each has the same share. */
const allTailsBytes = 4 * 1024 * 1024
const leastTailBytes = 2 * 1024

/** How often Redis is told again what could not be told at the end. */
const againMs = 5000

export class Generations {
  readonly #options: GenerationsOptions
  readonly #running = new Map<string, RunningGeneration>()
  /** Finished messages of which Redis has not been told. */
  readonly #untold = new Map<string, Finished>()
  /** Sends that are to be withdrawn, of which Redis has not been told. */
  readonly #unwithdrawn = new Map<string, Sent>()
  readonly #again: NodeJS.Timeout

  constructor(options: GenerationsOptions) {
    this.#options = options
    this.#again = setInterval(() => void this.#tellAgain(), againMs).unref()
  }

  /** The caller need not have checked the place: a message of another account or session is not found. */
  find(place: MessagePlace): RunningGeneration | undefined {
    const running = this.#running.get(place.message)
    return running && isAt(running.start.owned, place) ? running : undefined
  }

  /** Also finds a message that has ended here while Redis has not been told. */
  recordingOf(place: MessagePlace): Recording | undefined {
    const untold = this.#untold.get(place.message)
    const kept = untold && isAt(untold.owned, place) ? untold.recording : undefined
    return this.find(place)?.recording ?? kept
  }

  /** Cancels all generations of a session that was deleted. */
  cancelIn(session: string): void {
    for (const { start, cancel } of this.#running.values()) {
      if (start.owned.session === session) cancel()
    }
  }

  /** Called when Redis is back. */
  wake(): void {
    for (const { recording } of this.#running.values()) recording.wake()
    void this.#tellAgain()
  }

  /** Removes what a refused send may have stored. If Redis is away, it resolves all the same, and the send is withdrawn once Redis is back. */
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
    const { owned, options, keeping = this.#options } = start
    // `stop` stands below, because it needs the generation, which needs the recording.
    const recording = new Recording({
      ...keeping,
      owned,
      tailBytes: this.#tailBytes,
      stop: (code) => stop(code),
    })
    const generation = begin(x, { ...options, grammar: recording })
    // A finished answer is not cancelled: only its usage is still to come.
    const stop = (code: ErrorCode) => {
      if (generation.meter.finished) return
      const error = new GatewayError(code)
      // `x.finishesAlone`: an abort would hide what the answer used. So, once a target was asked, the answer is read to its
      // end, and only marked as cancelled.
      const isReadOn = x.finishesAlone && generation.sentAtMs > 0
      if (isReadOn) generation.cancelled ??= error
      else generation.deadline.depart(error)
    }
    const opened = Promise.withResolvers<Answer | undefined>()
    // The send that awaits `opened` gets the error; without this
    // line, an error that nobody awaits would end the process.
    opened.promise.catch(() => undefined)
    const opening = setTimeout(() => {
      generation.isCommitted = true
      recording.open()
      opened.resolve(undefined)
    }, options.limits.sessionFirstEventMs)
    const live = { start, recording, generation, opened, opening }
    const done = this.#runToEnd(live).finally(() => {
      clearTimeout(opening)
      this.#running.delete(owned.message)
    })
    const cancel = () => stop('message_cancelled')
    const running = { start, recording, opened: opened.promise, done, cancel }
    this.#running.set(owned.message, running)
    return running
  }

  /** Waits at most `boundMs` for generations to end and for Redis to be told. */
  async close(boundMs = 5000): Promise<void> {
    clearInterval(this.#again)
    const all = Promise.allSettled([...this.#running.values()].map(({ done }) => done))
    const told = all.then(() => this.#tellAgain())
    await soon(told, boundMs)
  }

  readonly #tailBytes = (): number => {
    const share = allTailsBytes / this.#running.size
    return Math.min(mostTailBytes, Math.max(leastTailBytes, share))
  }

  async #runToEnd(live: Live): Promise<StoredMessage | undefined> {
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
      // Once the client has the message's id, the message stays, as failed; a cancelled one stays in any case.
      const isKept = error.code === 'message_cancelled' || (await isSettled(opened.promise))
      if (!isKept) return await this.#withdraw(live, () => opened.reject(error))
      opened.resolve(undefined)
      const data = latin1(errorBody(error, generation.x.id))
      return await this.#fail(live, data, { status: statusAfter(error), error })
    }
  }

  /** The backend has refused: the client gets this refusal, or, once our headers have gone out, a failed message. */
  async #refused(live: Live, answer: Answer): Promise<StoredMessage | undefined> {
    const { opened } = live
    if (!(await isSettled(opened.promise))) {
      return await this.#withdraw(live, () => opened.resolve(answer))
    }
    const error = new GatewayError('upstream_error', { source: 'backend' })
    const data = 'body' in answer ? linesOf(answer.body) : ''
    return await this.#fail(live, data, { status: 'failed', error })
  }

  #fail(live: Live, data: string, status: FinalStatus): Promise<StoredMessage> {
    return this.#finish(live, live.recording.lastFrame(data), status)
  }

  async #finish(
    { recording, generation, start }: Live,
    frames: string,
    status: FinalStatus,
  ): Promise<StoredMessage> {
    const message = ended(start.draft, {
      ...status,
      ...usedBy(generation.x.facts),
      said: recording.said(),
    })
    const finished = { recording, owned: start.owned, message }
    if (!(await this.#tell(finished, frames))) this.#untold.set(message.id, finished)
    return message
  }

  async #tell({ recording, owned, message }: Finished, frames: string): Promise<boolean> {
    const isTold = await recording.finish(frames, JSON.stringify(message))
    // If another gateway has ended the message, the row has the cost by the hold's last checkpoint: this corrects it.
    // When that fails, the ledger's charge is right all the same.
    if (recording.isUnwritable) {
      await this.#options.rows.amend(owned, message).catch(() => undefined)
    }
    return isTold
  }

  async #withdraw({ start, recording, opening }: Live, tell: () => void): Promise<undefined> {
    // Redis may be slow: the client must not be answered 200 meanwhile.
    clearTimeout(opening)
    recording.drop()
    await this.withdraw(start)
    tell()
  }

  async #tellAgain(): Promise<void> {
    for (const [message, finished] of this.#untold) {
      if (await this.#tell(finished, '')) this.#untold.delete(message)
    }
    for (const sent of this.#unwithdrawn.values()) await this.withdraw(sent)
  }
}

interface Finished {
  readonly recording: Recording
  readonly owned: Owned
  /** The final row. */
  readonly message: StoredMessage
}

interface Live {
  readonly start: Start
  readonly recording: Recording
  readonly generation: Generation
  readonly opened: PromiseWithResolvers<Answer | undefined>
  /** Begins the answer after the longest wait for its first content. */
  readonly opening: NodeJS.Timeout
}

function isAt(owned: Owned, { ref, session }: MessagePlace): boolean {
  return owned.ref === ref && owned.session === session
}

/** Whether the promise is settled already. */
async function isSettled(promise: Promise<unknown>): Promise<boolean> {
  const not = Symbol('not')
  return (await Promise.race([promise, Promise.resolve(not)])) !== not
}
