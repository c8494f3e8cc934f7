// An answer's stream: chunks on demand, one loop, and every way in which it can end. A stream that can't be resumed
// ends with IncompleteStreamError; message-stream.ts knows how to resume.

/// <reference lib="esnext.disposable" preserve="true" />

import type { Attempt } from './attempt.ts'
import { chunkOf } from './chunk.ts'
import type { Chunk } from './chunk.ts'
import {
  ConnectionError,
  IncompleteStreamError,
  TollgateError,
  errorOfEvent,
  headerOf,
} from './errors.ts'
import type { APIError } from './errors.ts'
import { EventReader } from './events.ts'
import type { StreamEvent } from './events.ts'
import { Transcript } from './transcript.ts'

/** What reading one event has resulted in. */
type Taken = Chunk | 'done' | 'dropped'

/**
 * The answer of `chat.completions.create` with `stream: true`. Can't be resumed: the gateway keeps nothing of it.
 *
 * The loop throws an {@link APIError} with which the server ended it, an {@link IncompleteStreamError} if it broke
 * off, or the signal's reason. Leaving the loop closes the connection, which ends the generation.
 */
export class ChatStream implements AsyncIterable<Chunk>, AsyncDisposable {
  readonly #transcript = new Transcript()
  readonly #chunks = this.#run()
  #reader = new EventReader()
  #attempt: Attempt | undefined
  #isClosed = false
  #requestId: string | null

  /** @internal */
  constructor(attempt: Attempt) {
    this.#attempt = attempt
    this.#requestId = headerOf(attempt.response.headers, 'x-request-id')
    ensureEvents(attempt)
  }

  /** Finds the line in the gateway's log; after several connections it is that of the last one. */
  get requestId(): string | null {
    return this.#requestId
  }

  /** The text of choice 0 so far, up to 8 MiB of it. */
  get partialText(): string {
    return this.#transcript.text
  }

  /** One reader at a time: a second loop continues where the first one stopped. */
  [Symbol.asyncIterator](): AsyncIterator<Chunk, undefined> {
    return {
      next: () => this.#chunks.next(),
      return: async () => {
        this.close()
        return { done: true, value: undefined }
      },
    }
  }

  /** Closes the connection. A loop that waits ends without an error. */
  close(): void {
    this.#isClosed = true
    this.#attempt?.close()
  }

  // In runtimes without the symbol this method gets another name, which does no harm.
  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  /** Whether the reader has left it. @internal */
  protected get isClosed(): boolean {
    return this.#isClosed
  }

  /**
   * Called when the connection has ended without a terminal. Resolves with another answer to continue with, or with
   * null when nothing more follows and all is well. @internal
   */
  protected async reconnect(
    _ended: Attempt,
    cause: ConnectionError | undefined,
  ): Promise<Attempt | null> {
    throw new IncompleteStreamError(
      'The stream broke off. A stream of /v1/chat can’t be resumed.',
      { cause },
    )
  }

  /** Returns false for an event that came before. @internal */
  protected isNew(_event: StreamEvent): boolean {
    return true
  }

  /** Whether the reader wanted this end, so that the error is none. @internal */
  protected isWanted(_error: APIError): boolean {
    return false
  }

  async *#run(): AsyncGenerator<Chunk, undefined> {
    try {
      for (;;) {
        const events = await this.#read()
        if (!events) return undefined
        for (const event of events) {
          const taken = this.#take(event)
          if (taken === 'dropped') continue
          if (taken === 'done') {
            this.#attempt?.finish()
            this.#attempt = undefined
            return undefined
          }
          yield taken
          if (this.#isClosed) return undefined
          this.#attempt?.throwIfClosed()
        }
      }
    } catch (error) {
      if (this.#isClosed) return undefined
      if (error instanceof TollgateError) error.partialText = this.partialText
      throw error
    } finally {
      this.#attempt?.close()
    }
  }

  /** What the next piece completes; undefined at the end. */
  async #read(): Promise<readonly StreamEvent[] | undefined> {
    while (this.#attempt && !this.#isClosed) {
      const { piece, lost } = await readFrom(this.#attempt)
      if (this.#isClosed) return undefined
      if (piece) return this.#reader.feed(piece)
      await this.#goOn(this.#attempt, lost)
    }
    return undefined
  }

  #take(event: StreamEvent): Taken {
    if (!this.isNew(event)) return 'dropped'
    if (event.data === '[DONE]') return 'done'
    const chunk = chunkOf(event.data)
    if (chunk.error === undefined || chunk.error === null) {
      this.#transcript.add(chunk.text)
      return chunk
    }
    const error = errorOfEvent(chunk, this.#requestId)
    if (this.isWanted(error)) return 'done'
    throw error
  }

  async #goOn(ended: Attempt, lost: ConnectionError | undefined): Promise<void> {
    const next = await this.reconnect(ended, lost)
    this.#attempt = next ?? undefined
    if (!next) return
    // Closed while the request was on its way.
    if (this.#isClosed) return next.close()
    ensureEvents(next)
    this.#reader = new EventReader()
    this.#requestId = headerOf(next.response.headers, 'x-request-id') ?? this.#requestId
  }
}

interface Read {
  readonly piece?: Uint8Array | undefined
  readonly lost?: ConnectionError
}

async function readFrom(attempt: Attempt): Promise<Read> {
  try {
    return { piece: await attempt.read() }
  } catch (error) {
    if (error instanceof ConnectionError) return { lost: error }
    throw error
  }
}

/** A 204 has no content type, and needs none. */
function ensureEvents(attempt: Attempt): void {
  const type = headerOf(attempt.response.headers, 'content-type')?.toLowerCase() ?? ''
  if (attempt.response.status === 204 || type.startsWith('text/event-stream')) return
  attempt.close()
  throw new TollgateError(`The answer is no stream of events but ${type || 'of no type'}.`)
}
