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
  const wire = wireOf(options)
  const leave = () => wire.end(signal?.reason)
  const ignore = () => undefined // whoever iterates has it too
  content.on('error', ignore)
  signal?.addEventListener('abort', leave, { once: true })
  // lib-storage holds one part more than it sends: that which is being filled.
  const queueSize = Math.max(1, concurrency - 1)
  const params = { ...to, Body: content }
  const { client } = wire
  const upload = new Upload({ client, params, partSize, queueSize, leavePartsOnError: true })
  try {
    // Its own promise may wait for a client that sends nothing, long after a part has failed.
    await Promise.race([upload.done(), wire.ended])
  } catch (error) {
    wire.end(error)
    content.destroy()
    await wire.settled()
    if (wire.uploadId !== undefined) await options.abort(wire.uploadId)
    throw error
  } finally {
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
  /** Rejects, with the reason, when the upload ends early. */
  readonly ended: Promise<never>
  /** What is on its way has only a little more time, and nothing more goes out. Too late once all has been sent. */
  end(reason: unknown): void
  /** When nothing is on its way. */
  settled(): Promise<void>
}

/** The client as this upload sees it: calls end by time, and the first that fails ends them all. */
function wireOf({ client, answerMs, patienceMs }: UploadOptions): Wire {
  const cut = new AbortController()
  const ended = Promise.withResolvers<never>()
  const underWay = new Set<Promise<unknown>>()
  let state: 'open' | 'all sent' | 'ended' = 'open'
  const end = (reason: unknown) => {
    if (state === 'ended') return
    state = 'ended'
    ended.reject(reason)
    setTimeout(() => cut.abort(), patienceMs).unref()
  }
  const send = async (command: Parameters<S3Client['send']>[0]) => {
    if (state === 'ended') throw new Error('the upload has ended')
    const { input } = command
    if (isLast(input)) state = 'all sent'
    const boundMs = answerMs + ('Body' in input ? sendingMs(input.Body) : 0)
    const abortSignal = AbortSignal.any([cut.signal, AbortSignal.timeout(boundMs)])
    const call = client.send(command, { abortSignal })
    underWay.add(call)
    try {
      const answer = await call
      if ('UploadId' in answer && answer.UploadId) wire.uploadId = answer.UploadId
      return answer
    } catch (error) {
      end(storageError(error))
      throw error
    } finally {
      underWay.delete(call)
    }
  }
  const wire: Wire = {
    client: Object.create(client, { send: { value: send } }),
    ended: ended.promise,
    end: (reason) => (state === 'open' ? end(reason) : undefined),
    async settled() {
      while (underWay.size > 0) await Promise.allSettled(underWay)
    },
  }
  return wire
}

/** The call that makes the object: of the whole content, or of the parts. */
function isLast(input: object): boolean {
  const hasBody = 'Body' in input && input.Body !== undefined
  return 'MultipartUpload' in input || (hasBody && !('PartNumber' in input))
}
