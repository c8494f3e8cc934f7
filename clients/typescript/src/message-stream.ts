// The stream of a session's message: it resumes by itself after a break, so that a reader sees each chunk once.
// The generation goes on without a reader; only `cancel` stops it.

import { Again } from './again.ts'
import type { Attempt } from './attempt.ts'
import { APIError, ConnectionError, IncompleteStreamError } from './errors.ts'
import type { StreamEvent } from './events.ts'
import type { Message } from './messages.ts'
import { ChatStream } from './stream.ts'

/** The requests that a message's stream makes. @internal */
export interface MessageCalls {
  /** One attempt. */
  resume(messageId: string, lastEventId: string | null, signal: AbortSignal): Promise<Attempt>
  retrieve(messageId: string, signal?: AbortSignal): Promise<Message>
  cancel(messageId: string): Promise<Message>
  readonly messageId?: string
  readonly lastEventId?: string | undefined
  readonly signal?: AbortSignal | undefined
}

/**
 * The answer to a message. The loop throws the {@link APIError} with which the server ended it, an {@link
 * IncompleteStreamError} if it could not be resumed, or the signal's reason. Leaving the loop closes the
 * connection and nothing else: the message is generated, stored and charged all the same.
 */
export class MessageStream extends ChatStream {
  readonly #calls: MessageCalls
  readonly #again: Again
  readonly #userMessageId: string | null
  #messageId: string | null
  #lastEventId: string | null
  #number: number
  /** Without ids there is no place to resume from. */
  #hasIds = true
  /** Cancels by this reader that may have stopped the message. */
  #cancels = 0
  #cancelled: Promise<Message> | undefined

  /** @internal */
  constructor(attempt: Attempt, calls: MessageCalls) {
    super(attempt)
    const { headers } = attempt.response
    this.#calls = calls
    this.#again = new Again(calls.signal)
    this.#messageId = headers.get('x-message-id') ?? calls.messageId ?? null
    this.#userMessageId = headers.get('x-user-message-id')
    this.#lastEventId = calls.lastEventId ?? null
    this.#number = numberOf(this.#lastEventId)
  }

  /** The id of the answer. null until an event or a header has named it. */
  get messageId(): string | null {
    return this.#messageId
  }

  /** The id of the question; null on resumed streams. */
  get userMessageId(): string | null {
    return this.#userMessageId
  }

  /** The place to resume from, for example in another process: `messages.resume`. */
  get lastEventId(): string | null {
    return this.#lastEventId
  }

  override close(): void {
    super.close()
    this.#again.leave()
  }

  /**
   * Stops the generation, once. The loop still gets what came before the stop, then ends without an error. Resolves
   * with the message as it ended.
   */
  async cancel(): Promise<Message> {
    this.#cancelled ??= this.#calls.cancel(this.#known())
    this.#cancels++
    try {
      return await this.#cancelled
    } catch (error) {
      this.#cancelled = undefined
      // A cancel that failed, or whose answer was lost, may have stopped the message all the same.
      const isRefused = error instanceof APIError && (error.status ?? 500) < 500
      if (isRefused) this.#cancels--
      throw error
    }
  }

  /**
   * Reads the rest of the stream, unless it was left, then the message: its status, usage and cost. Throws what the
   * loop would throw.
   */
  async finalMessage(): Promise<Message> {
    if (!this.isClosed) {
      const chunks = this[Symbol.asyncIterator]()
      while (!(await chunks.next()).done);
    }
    return await this.#calls.retrieve(this.#known(), this.#calls.signal)
  }

  /** @internal */
  protected override isNew({ id }: StreamEvent): boolean {
    if (id !== undefined) {
      const number = numberOf(id)
      if (number <= this.#number) return false
      // Every id that is not a number counts as progress.
      if (!Number.isNaN(number)) this.#number = number
      this.#lastEventId = id
      this.#messageId ??= id.slice(0, Math.max(id.lastIndexOf(':'), 0)) || null
    } else this.#hasIds = false
    this.#again.progress()
    return true
  }

  /** @internal */
  protected override isWanted({ code }: APIError): boolean {
    return this.#cancels > 0 && code === 'message_cancelled'
  }

  /** @internal */
  protected override async reconnect(
    ended: Attempt,
    lost: ConnectionError | undefined,
  ): Promise<Attempt | null> {
    if (ended.response.status === 204) return await this.#ensureComplete()
    const id = this.#messageId
    if (id === null || !this.#hasIds) {
      throw new IncompleteStreamError('The stream broke off, and has no ids to go on from.', {
        cause: lost,
      })
    }
    const resume = (signal: AbortSignal) => this.#calls.resume(id, this.#lastEventId, signal)
    return await this.#again.open(lost, resume)
  }

  /** Whether the server has sent all events. */
  async #ensureComplete(): Promise<null> {
    const status = await this.#status()
    if (status === 'completed' || (this.#cancels > 0 && status === 'cancelled')) return null
    throw new IncompleteStreamError(
      `The message ended as ${status}. Retrieve it to see what it has.`,
    )
  }

  async #status(): Promise<Message['status']> {
    const retrieve = (signal: AbortSignal) => this.#calls.retrieve(this.#known(), signal)
    try {
      return (await this.#again.during(retrieve)).status
    } catch (cause) {
      this.#again.throwIfLeft()
      if (!(cause instanceof ConnectionError)) throw cause
      throw new IncompleteStreamError('How the message ended could not be read.', { cause })
    }
  }

  #known(): string {
    if (this.#messageId !== null) return this.#messageId
    throw new IncompleteStreamError('The stream has not named its message.')
  }
}

/** -1 before the first event, so that 0 is greater; NaN is never greater or less. */
function numberOf(id: string | null): number {
  if (id === null) return -1
  const digits = /:(\d+)$/.exec(id)?.[1]
  return digits === undefined ? NaN : Number(digits)
}
