// Objects in an S3 bucket, AWS's or a compatible server's. An upload in parts that failed is aborted until the server no
// longer lists it. Nothing is cached and no bucket is made. The credentials may list, read, write, delete and abort.

import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { getSignedUrl } from '@aws-sdk/s3-request-presigner'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { bodyFrom } from './s3-body.ts'
import type { S3Config } from './s3-driver.ts'
import { sendingMs, uploadStream } from './s3-upload.ts'
import type { UploadCalls } from './s3-upload.ts'
import { checkName, checkPrefix, isName, NoSuchObject, storageError } from './store.ts'
import type { ByteRange, ObjectStore, PutOptions } from './store.ts'

export interface S3Options {
  /** Connections at a time, each with one call. */
  readonly sockets?: number
  /** The same for downloads, which last as long as their readers like: so no other call waits for them. */
  readonly downloadSockets?: number
  readonly connectMs?: number
  /** How long a call may take, with its retries, besides the time for its bytes. */
  readonly answerMs?: number
  /** A download is given up when the store sends nothing for so long. */
  readonly idleMs?: number
  /** When an upload ends early, calls under way are cut after so long. */
  readonly patienceMs?: number
}

const defaults = {
  sockets: 256,
  downloadSockets: Infinity,
  connectMs: 5000,
  answerMs: 30_000,
  idleMs: 30_000,
  patienceMs: 5000,
} satisfies S3Options

export function s3Store(config: S3Config, options: S3Options = {}): ObjectStore {
  const all = { ...defaults, ...options }
  const bucket: Bucket = { ...all, config, client: clientOf(config, all) }
  const { client } = bucket
  const downloads = clientOf(config, { ...all, sockets: all.downloadSockets })
  // Bad names are refused before anything is asked.
  const to = (name: string): ObjectPlace => {
    checkName(name)
    return { Bucket: config.bucket, Key: config.prefix + name }
  }
  const below = (prefix: string): string => {
    checkPrefix(prefix)
    return config.prefix + prefix
  }
  return {
    put: async (name, content, more) => put(bucket, to(name), { content, ...more }),
    get: async (name) => told(open(bucket, to(name)).then(buffer)),
    read: async (name, range) => told(open({ ...bucket, client: downloads }, to(name), range)),
    remove: async (name) => told(remove(bucket, to(name))),
    async abandon(name) {
      const at = to(name)
      await told(remove(bucket, at))
      await told(abortLeft(bucket, at))
    },
    list: async (prefix) => namesOf(config, await told(listKeys(bucket, below(prefix)))),
    async unfinished(prefix) {
      const keys = (await told(listUploads(bucket, below(prefix)))).map(({ key }) => key)
      return namesOf(config, keys)
    },
    async presign(name, { expiresS: expiresIn, contentType, disposition }) {
      const more = { ResponseContentType: contentType, ResponseContentDisposition: disposition }
      const command = new GetObjectCommand({ ...to(name), ...more })
      return told(getSignedUrl(client, command, { expiresIn }))
    },
    async close() {
      client.destroy()
      downloads.destroy()
    },
  }
}

interface ObjectPlace {
  readonly Bucket: string
  readonly Key: string
}

interface Bucket extends Required<S3Options> {
  readonly config: S3Config
  readonly client: S3Client
}

/** S3 servers other than AWS may answer 411 or 400 to optional checksums, and to the Expect header. */
function clientOf(
  config: S3Config,
  { sockets, connectMs }: Pick<Required<S3Options>, 'sockets' | 'connectMs'>,
): S3Client {
  const { region, endpoint, credentials, pathStyle } = config
  const agent = { keepAlive: true, maxSockets: sockets }
  return new S3Client({
    region,
    forcePathStyle: pathStyle,
    ...(endpoint !== undefined && { endpoint }),
    // Copied: the SDK writes into the credentials, and the configuration is frozen.
    ...(credentials && { credentials: { ...credentials } }),
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    expectContinueHeader: false,
    maxAttempts: 3,
    // Its own socket time-out would end a download whose client is slow: calls end by signal, bodies by s3-body.ts.
    requestHandler: {
      connectionTimeout: connectMs,
      httpAgent: agent,
      httpsAgent: agent,
      logger: silent,
    },
  })
}

const silent = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}

/** Aborts a call that gets no answer in time. */
function inTime({ answerMs }: Bucket): { abortSignal: AbortSignal } {
  return { abortSignal: AbortSignal.timeout(answerMs) }
}

interface Putting extends PutOptions {
  readonly content: Uint8Array | Readable
}

async function put(bucket: Bucket, to: ObjectPlace, { content, signal }: Putting): Promise<void> {
  const { client, config, patienceMs, answerMs } = bucket
  const { partBytes, concurrency } = config
  if (content instanceof Readable) {
    // When this fails, `abandon` finds the upload.
    const abort = (id: string) => abortLeft(bucket, to, id).catch(() => undefined)
    const shape = { partBytes, concurrency, answerMs, patienceMs }
    return uploadStream(content, { calls: { ...callsOf(client, to), abort }, ...shape, signal })
  }
  signal?.throwIfAborted()
  try {
    const late = AbortSignal.timeout(answerMs + sendingMs(content))
    const abortSignal = signal ? AbortSignal.any([late, signal]) : late
    await client.send(new PutObjectCommand({ ...to, Body: content }), { abortSignal })
  } catch (error) {
    throw signal?.aborted ? signal.reason : storageError(error)
  }
}

function callsOf(client: S3Client, to: ObjectPlace): Omit<UploadCalls, 'abort'> {
  return {
    async put(Body, abortSignal) {
      await client.send(new PutObjectCommand({ ...to, Body }), { abortSignal })
    },
    async create(abortSignal) {
      const { UploadId } = await client.send(new CreateMultipartUploadCommand(to), { abortSignal })
      if (UploadId === undefined) throw new Error('the store answered without an upload id')
      return UploadId
    },
    async part(UploadId, { number: PartNumber, content: Body }, abortSignal) {
      const command = new UploadPartCommand({ ...to, UploadId, PartNumber, Body })
      const { ETag } = await client.send(command, { abortSignal })
      if (ETag === undefined) throw new Error('the store answered without an ETag')
      return { PartNumber, ETag }
    },
    async complete(UploadId, parts, abortSignal) {
      const MultipartUpload = { Parts: [...parts] }
      const command = new CompleteMultipartUploadCommand({ ...to, UploadId, MultipartUpload })
      await client.send(command, { abortSignal })
    },
  }
}

async function open(bucket: Bucket, from: ObjectPlace, range?: ByteRange): Promise<Readable> {
  const { client, answerMs, idleMs } = bucket
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(), answerMs)
  try {
    const Range = range && `bytes=${range.start}-${range.end}`
    const command = new GetObjectCommand({ ...from, ...(Range && { Range }) })
    const { Body, ContentRange } = await client.send(command, { abortSignal: late.signal })
    if (!(Body instanceof Readable)) throw new Error('the store answered without a body')
    const body = bodyFrom(Body, { idleMs })
    if (range && !ContentRange?.startsWith(`bytes ${range.start}-${range.end}/`)) {
      body.destroy()
      throw new Error(`the store answered with the range ${ContentRange}, not ${Range}`)
    }
    return body
  } catch (error) {
    throw isMissing(error) ? new NoSuchObject(from.Key, { cause: error }) : error
  } finally {
    clearTimeout(timer)
  }
}

async function remove(bucket: Bucket, at: ObjectPlace): Promise<void> {
  try {
    await bucket.client.send(new DeleteObjectCommand(at), inTime(bucket))
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

async function listKeys(bucket: Bucket, Prefix: string): Promise<readonly string[]> {
  const keys: string[] = []
  let ContinuationToken: string | undefined
  do {
    const where = { Bucket: bucket.config.bucket, Prefix, ContinuationToken }
    const page = await bucket.client.send(new ListObjectsV2Command(where), inTime(bucket))
    keys.push(...(page.Contents ?? []).flatMap(({ Key }) => Key ?? []))
    ContinuationToken = page.IsTruncated ? page.NextContinuationToken : undefined
  } while (ContinuationToken)
  return keys
}

interface LeftUpload {
  readonly key: string
  readonly id: string
}

async function listUploads(bucket: Bucket, Prefix: string): Promise<readonly LeftUpload[]> {
  const uploads: LeftUpload[] = []
  let marks: { KeyMarker?: string | undefined; UploadIdMarker?: string | undefined } | undefined
  do {
    const where = { Bucket: bucket.config.bucket, Prefix, ...marks }
    const page = await bucket.client.send(new ListMultipartUploadsCommand(where), inTime(bucket))
    for (const { Key: key, UploadId: id } of page.Uploads ?? []) {
      if (key !== undefined && id !== undefined) uploads.push({ key, id })
    }
    const { NextKeyMarker: KeyMarker, NextUploadIdMarker: UploadIdMarker } = page
    marks = page.IsTruncated ? { KeyMarker, UploadIdMarker } : undefined
  } while (marks)
  return uploads
}

/** Rounds in which a part that was on its way must have arrived: 0.1 s + 0.2 s + … */
const abortRounds = 6
const abortPauseMs = 100

/**
 * Aborts all uploads to one key, or the one of this id, again and again until none is listed: a part that arrives after
 * an abort keeps the upload, or its disk space, in being.
 */
async function abortLeft(bucket: Bucket, { Bucket, Key }: ObjectPlace, id?: string): Promise<void> {
  const abort = async (UploadId: string) => {
    const command = new AbortMultipartUploadCommand({ Bucket, Key, UploadId })
    await bucket.client.send(command, inTime(bucket)).catch((error: unknown) => {
      if (!isMissing(error)) throw error
    })
  }
  if (id !== undefined) await abort(id)
  for (let round = 0; ; round++) {
    const uploads = await listUploads(bucket, Key)
    const left = uploads.filter((upload) => upload.key === Key && (id ?? upload.id) === upload.id)
    if (left.length === 0) return
    if (round === abortRounds) throw new Error(`uploads to ${Key} cannot be aborted`)
    if (round > 0) await pause(abortPauseMs * round)
    await Promise.all(left.map((upload) => abort(upload.id)))
  }
}

/** Skips keys of the bucket that are no names of this store. */
function namesOf({ prefix }: S3Config, keys: readonly string[]): string[] {
  return keys
    .map((key) => key.slice(prefix.length))
    .filter(isName)
    .sort()
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && ['NoSuchKey', 'NotFound', 'NoSuchUpload'].includes(error.name)
}

async function told<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise
  } catch (error) {
    throw storageError(error)
  }
}
