// A stream of unknown length into an S3 store by lib-storage: a small one as one object, a larger one in parts. Memory is
// bounded by the parts; the stream is read as fast as they go out. lib-storage ends what failed halfway: the upload on the
// server is aborted here, after the last of its parts has settled, since one that comes late would bring it back.

import type { S3Client } from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import type { Readable } from 'node:stream'
import { storageError } from './store.ts'

export interface UploadOptions {
  readonly client: S3Client
  readonly to: { readonly Bucket: string; readonly Key: string }
  readonly partBytes: number
  /** Parts in memory at a time. */
  readonly concurrency: number
  /** For a call to be answered, besides the time that its bytes take. */
  readonly answerMs: number
  /** What is on its way when the upload ends early is cut after so long. */
  readonly patienceMs: number
  readonly signal?: AbortSignal | undefined
  /** Makes an upload of this id not be; called once, when nothing of it is on its way. */
  abort(uploadId: string): Promise<void>
}

/** Rejects with the content's own error as it is, or the signal's reason, or as a failure of the store. */
export async function uploadStream(content: Readable, options: UploadOptions): Promise<void> {
  const { signal, to, partBytes: partSize, concurrency } = options
  signal?.throwIfAborted()
  const wire = wireOf(content, options)
  const leave = () => {
    wire.end()
    content.destroy(signal?.reason instanceof Error ? signal.reason : undefined)
  }
  const ignore = () => undefined // the iteration has it too
  content.on('error', ignore)
  signal?.addEventListener('abort', leave, { once: true })
  // lib-storage holds one part more than it sends: that which is being filled.
  const queueSize = Math.max(1, concurrency - 1)
  const params = { ...to, Body: content }
  const upload = new Upload({
    ...{ client: wire.client, params, partSize, queueSize },
    leavePartsOnError: true,
  })
  try {
    await upload.done()
  } catch (error) {
    if (wire.uploadId !== undefined) await options.abort(wire.uploadId)
    if (signal?.aborted) throw signal.reason
    throw wire.failure ? storageError(wire.failure.error) : error
  } finally {
    wire.close()
    signal?.removeEventListener('abort', leave)
    content.off('error', ignore)
  }
}

/** What goes out slower than this is given up. */
const slowestBytesPerMs = 128

export function sendingMs(content: unknown): number {
  return content instanceof Uint8Array ? Math.ceil(content.length / slowestBytesPerMs) : 0
}

interface Wire {
  readonly client: S3Client
  uploadId?: string
  /** The first: it is why the others fail. */
  failure?: { readonly error: unknown }
  /** Parts on their way have only a little more time. */
  end(): void
  close(): void
}

/** The client as this upload sees it: calls end by time, and the first that fails ends the reading of the content. */
function wireOf(content: Readable, { client, answerMs, patienceMs }: UploadOptions): Wire {
  const cut = new AbortController()
  let patience: NodeJS.Timeout | undefined
  const send = async (command: Parameters<S3Client['send']>[0]) => {
    try {
      const boundMs = answerMs + ('Body' in command.input ? sendingMs(command.input.Body) : 0)
      const abortSignal = AbortSignal.any([cut.signal, AbortSignal.timeout(boundMs)])
      const answer = await client.send(command, { abortSignal })
      if ('UploadId' in answer && answer.UploadId) wire.uploadId = answer.UploadId
      return answer
    } catch (error) {
      wire.failure ??= { error }
      wire.end()
      content.destroy()
      throw error
    }
  }
  const wire: Wire = {
    client: Object.create(client, { send: { value: send } }),
    end() {
      patience ??= setTimeout(() => cut.abort(), patienceMs)
    },
    close() {
      clearTimeout(patience)
    },
  }
  return wire
}
