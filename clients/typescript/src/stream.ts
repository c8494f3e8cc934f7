// An answer's stream: chunks to be pulled, one loop, and every way in which it can end. What can't be read on ends as
// IncompleteStreamError; message-stream.ts knows how to read on.

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

/** What is told of an event. */
type Taken = Chunk | 'done' | 'dropped'

/**
 * The answer of `chat.completions.create` with `stream: true`. Can't be resumed: the gateway keeps nothing of it.
 *
 * The loop throws an {@link APIError} that the server ended it with, an {@link IncompleteStreamError} where it broke
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

  /** Finds the line in the gateway's log; of the last connection where there were several. */
  get requestId(): string | null {
    return this.#requestId
  }

  /** The text of choice 0 so far, up to 8 MiB of it. */
  get partialText(): string {
    return this.#transcript.text
  }

  /** Once: a second loop goes on where the first one stopped. */
  [Symbol.asyncIterator](): AsyncIterator<Chunk, undefined> {
    return {
      next: () => this.#chunks.next(),
      return: async () => {
        this.close()
        return { done: true, value: undefined }
      },
    }
  }

  /** Closes the connection. A loop that waits ends as if the stream had. */
  close(): void {
    this.#isClosed = true
    this.#attempt?.close()
  }

  // Where the symbol isn't known yet this is a method of another name, which harms nobody.
  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }

  /** Whether it was left by its reader. @internal */
  protected get isClosed(): boolean {
    return this.#isClosed
  }

  /**
   * Called when the connection has ended without a terminal. Another answer to go on with; null: there is nothing
   * more, and all is well. @internal
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

  /** false: it came before. @internal */
  protected isNew(_event: StreamEvent): boolean {
    return true
  }

  /** Whether this error is how the reader wanted it to end. @internal */
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

  /** What the next piece completes; undefined: the end. */
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
    // Closed while it was under way.
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

/** 204 has none, and needs none. */
function ensureEvents(attempt: Attempt): void {
  const type = headerOf(attempt.response.headers, 'content-type')?.toLowerCase() ?? ''
  if (attempt.response.status === 204 || type.startsWith('text/event-stream')) return
  attempt.close()
  throw new TollgateError(`The answer is no stream of events but ${type || 'of no type'}.`)
}
