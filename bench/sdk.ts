// The AWS SDK as a program would use it: uploads a file to the bucket by lib-storage, and downloads an object. Orders
// come by IPC, one at a time.

import { GetObjectCommand, S3Client } from '@aws-sdk/client-s3'
import { Upload } from '@aws-sdk/lib-storage'
import { createReadStream } from 'node:fs'
import { Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'

export interface SdkPlace {
  readonly endpoint: string
  readonly bucket: string
  readonly accessKeyId: string
  readonly secretAccessKey: string
}

export interface SdkOrder extends SdkPlace {
  readonly kind: 'upload' | 'download'
  readonly key: string
  /** The file to upload. */
  readonly file: string
  /** How many transfers, of which `lanes` run at a time. */
  readonly count: number
  readonly lanes: number
  readonly partBytes: number
  readonly concurrency: number
}

export interface SdkReport {
  readonly ms: number
  readonly failure: string
}

let client: S3Client | undefined

/** Configured like the gateway: no checksums that S3 would not have asked for. */
function clientFor({ endpoint, accessKeyId, secretAccessKey }: SdkPlace): S3Client {
  return (client ??= new S3Client({
    endpoint,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  }))
}

async function upload(order: SdkOrder, n: number): Promise<void> {
  const { bucket: Bucket, key, partBytes: partSize, concurrency: queueSize } = order
  const params = { Bucket, Key: `${key}-${n}`, Body: createReadStream(order.file) }
  await new Upload({ client: clientFor(order), params, partSize, queueSize }).done()
}

/** Downloads the first object again and again. */
async function download(order: SdkOrder): Promise<void> {
  const { bucket: Bucket, key } = order
  const command = new GetObjectCommand({ Bucket, Key: `${key}-0` })
  const { Body } = await clientFor(order).send(command)
  if (!(Body instanceof Readable)) throw new Error('no body')
  await pipeline(Body, new Writable({ write: (_chunk, _encoding, done) => done() }))
}

async function obey(order: SdkOrder): Promise<SdkReport> {
  const start = performance.now()
  const run = order.kind === 'upload' ? upload : download
  let next = 0
  const lane = async () => {
    while (next < order.count) await run(order, next++)
  }
  try {
    await Promise.all(Array.from({ length: order.lanes }, lane))
    return { ms: performance.now() - start, failure: '' }
  } catch (error) {
    return { ms: performance.now() - start, failure: String(error) }
  }
}

process.on(
  'message',
  (order: SdkOrder) => void obey(order).then((report) => process.send?.(report)),
)
process.on('disconnect', () => process.exit())
