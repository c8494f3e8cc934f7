// Sends a file as multipart/form-data, in pieces as the connection takes them: memory holds one piece. Browsers can't
// send streams: there the browser builds the form, and XMLHttpRequest reports the progress.

import type { Send } from './attempt.ts'
import { initForStreams } from './dispatcher.ts'
import { TollgateError } from './errors.ts'
import { headOf } from './multipart.ts'
import { isBrowser } from './runtime.ts'
import { sendByXhr } from './xhr.ts'

/** `fs.openAsBlob` gives a Blob, `fs.createReadStream` an AsyncIterable, an `<input>` a File. */
export type Uploadable =
  Blob | ArrayBuffer | Uint8Array | ReadableStream<Uint8Array> | AsyncIterable<Uint8Array>

/** `bytes` of the file sent so far; `total`: undefined if unknown. Never falls, also over attempts. */
export type OnProgress = (bytes: number, total: number | undefined) => void

interface FormParams {
  readonly filename: string
  readonly contentType?: string | undefined
  /** The size in bytes of a stream, if it is known. */
  readonly size?: number | undefined
  /** Fields that are sent before the file, in order. */
  readonly fields: readonly (readonly [name: string, value: string])[]
  readonly onProgress?: OnProgress | undefined
}

export interface Form {
  /** The source can't be read twice. */
  readonly isOnce: boolean
  /** Why reading the source failed, if it did. */
  readonly failure: unknown
  /** Returns what must send this body; undefined means that any fetch can. */
  sendWith(send: Send | undefined): Send | undefined
  /** Makes the body of one attempt. `touch` reports that something was sent; false: no more is wanted. */
  open(headers: Headers, touch: () => boolean): RequestInit
}

export async function formOf(file: Uploadable, params: FormParams): Promise<Form> {
  const source = sourceOf(file, params)
  if (!isBrowser()) return new StreamedForm(source, params)
  const blob = source.blob ?? (await new Response(streamOf(source.open())).blob())
  return new BrowserForm(blob, params)
}

interface Source {
  readonly size: number | undefined
  readonly type: string
  /** undefined when the source can be read only once. */
  readonly blob: Blob | undefined
  open(): AsyncIterable<Uint8Array>
}

function sourceOf(file: Uploadable, { contentType, size }: FormParams): Source {
  const type = contentType ?? 'application/octet-stream'
  if (file instanceof Blob || file instanceof ArrayBuffer || ArrayBuffer.isView(file)) {
    const blob = file instanceof Blob ? file : new Blob([file as Uint8Array<ArrayBuffer>])
    return {
      size: blob.size,
      type: contentType ?? (blob.type || type),
      blob,
      open: () => piecesOf(blob.stream()),
    }
  }
  // Callers in JavaScript may give anything.
  const isStream = Object(file) === file && ('getReader' in file || Symbol.asyncIterator in file)
  if (!isStream) throw new TollgateError('A file is a Blob, bytes, or a stream of bytes.')
  const open = () => ('getReader' in file ? piecesOf(file) : file)
  return { size, type, blob: undefined, open }
}

/** Some runtimes' streams can't be used in a loop. */
async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader()
  try {
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    // Nobody reads the rest.
    reader.cancel().catch(() => undefined)
  }
}

/** Reads a piece from the source when the stream asks for one. */
export function streamOf(pieces: AsyncIterable<Uint8Array>): ReadableStream<Uint8Array> {
  const iterator = pieces[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await iterator.next()
        if (done) controller.close()
        else controller.enqueue(value)
      },
      async cancel() {
        await iterator.return?.()
      },
    },
    { highWaterMark: 0 },
  )
}

class Progress {
  readonly #report: OnProgress | undefined
  readonly #total: number | undefined
  #bytes = 0

  constructor(report: OnProgress | undefined, total: number | undefined) {
    this.#report = report
    this.#total = total
  }

  reach(bytes: number): void {
    if (bytes <= this.#bytes) return
    this.#bytes = bytes
    this.#report?.(bytes, this.#total)
  }
}

class StreamedForm implements Form {
  readonly #source: Source
  readonly #progress: Progress
  readonly #boundary = `tollgate-${crypto.getRandomValues(new Uint32Array(4)).join('-')}`
  readonly #head: Uint8Array
  readonly #tail: Uint8Array
  #failure: unknown

  constructor(source: Source, { fields, filename, onProgress }: FormParams) {
    const encoder = new TextEncoder()
    this.#source = source
    this.#progress = new Progress(onProgress, source.size)
    const file = { filename, type: source.type }
    this.#head = encoder.encode(headOf({ boundary: this.#boundary, fields, file }))
    this.#tail = encoder.encode(`\r\n--${this.#boundary}--\r\n`)
  }

  get isOnce(): boolean {
    return this.#source.blob === undefined
  }

  get failure(): unknown {
    return this.#failure
  }

  sendWith(): undefined {
    return undefined
  }

  open(headers: Headers, touch: () => boolean): RequestInit {
    headers.set('content-type', `multipart/form-data; boundary=${this.#boundary}`)
    const { size } = this.#source
    const around = this.#head.length + this.#tail.length
    if (size !== undefined) headers.set('content-length', String(around + size))
    const body = streamOf(this.#pieces(touch))
    return { ...initForStreams(), body, duplex: 'half' } as RequestInit
  }

  async *#pieces(touch: () => boolean): AsyncGenerator<Uint8Array> {
    yield this.#head
    const { size = Infinity } = this.#source
    let bytes = 0
    try {
      for await (const piece of this.#source.open()) {
        if (!(piece instanceof Uint8Array)) throw new TollgateError('A file’s stream is of bytes.')
        bytes += piece.length
        if (bytes > size) break
        yield piece
        // A request for more means that the piece was taken, or dropped: Node reads on when the connection is lost.
        if (!touch()) return
        this.#progress.reach(bytes)
      }
      if (size !== Infinity && bytes !== size) {
        throw new TollgateError(`The file is not of ${size} bytes, as was told.`)
      }
    } catch (error) {
      this.#failure = error
      throw error
    }
    yield this.#tail
  }
}

class BrowserForm implements Form {
  readonly isOnce = false
  readonly failure = undefined
  readonly #form = new FormData()
  readonly #size: number
  readonly #progress: Progress
  #touch: () => unknown = () => undefined

  constructor(blob: Blob, { fields, filename, contentType, onProgress }: FormParams) {
    for (const [name, value] of fields) this.#form.set(name, value)
    const type = contentType ?? (blob.type || 'application/octet-stream')
    this.#form.set('file', new Blob([blob], { type }), filename)
    this.#size = blob.size
    this.#progress = new Progress(onProgress, blob.size)
  }

  sendWith(send: Send | undefined): Send | undefined {
    if (send || typeof XMLHttpRequest !== 'function') return undefined
    return (url, init) =>
      sendByXhr(url, init, (bytes) => {
        this.#touch()
        this.#progress.reach(Math.min(bytes, this.#size))
      })
  }

  open(_headers: Headers, touch: () => boolean): RequestInit {
    this.#touch = touch
    return { body: this.#form }
  }
}
