// An S3 bucket as a store, as gateway.yaml has it under `store.s3`. The driver itself is loaded only when it is used: its
// SDK takes 90 ms to load.

import { bytes, kinds, secret, z } from '../config/schema.ts'
import type { StoreDriver } from './store.ts'

export interface S3Config {
  readonly bucket: string
  /** The beginning of every object's key: '', or a text that ends with a slash. */
  readonly prefix: string
  readonly region: string
  /** Undefined for AWS. */
  readonly endpoint?: string
  readonly pathStyle: boolean
  /** When undefined, credentials are looked for where AWS tools look for them. */
  readonly credentials?: { readonly accessKeyId: string; readonly secretAccessKey: string }
  readonly partBytes: number
  /** Parts of one upload in memory at a time. */
  readonly concurrency: number
}

const bucket = () =>
  z.string().regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/, {
    error: 'write a bucket name: 3 to 63 small letters, digits, dots and hyphens',
  })

/** A prefix must have the form that the store demands of object names. */
const objectPrefix = () =>
  z.string().regex(/^([A-Za-z0-9_=-][A-Za-z0-9_=.-]*\/)*$/, {
    error: 'write a prefix of letters, digits, _ = . - that ends with a slash, such as tollgate/',
  })

const endpointUrl = () =>
  z
    .string()
    .refine(isEndpoint, {
      error: 'write the http:// or https:// URL of the server, without a path or a credential',
    })
    .register(kinds, { kind: 'url' })

function isEndpoint(text: string): boolean {
  const url = URL.parse(text)
  if (!url || /[\s\p{C}]/u.test(text)) return false
  const isBare = url.pathname === '/' && !url.search && !url.hash && !url.username && !url.password
  return isBare && (url.protocol === 'http:' || url.protocol === 'https:')
}

/** S3's own minimum, for every part but the last. */
export const smallestPart = 5 * 2 ** 20
/** Bounded, because a part is held in memory. */
const largestPart = 2 ** 30

const block = z.strictObject({
  bucket: bucket().describe('The bucket. It must exist, and nobody else may write to it.'),
  prefix: objectPrefix()
    .default('')
    .describe('Begins the name of every object, such as `tollgate/`.'),
  region: z.string().min(1).default('us-east-1').describe("The bucket's region."),
  endpoint: endpointUrl().optional().describe('URL of the server, if it is not AWS.'),
  path_style: z
    .boolean()
    .optional()
    .describe(
      'Whether the bucket is in the path, not in the host name; by default with an endpoint only.',
    ),
  access_key_id: z
    .string()
    .optional()
    .describe('By default, credentials are read from where AWS tools look for them.'),
  secret_access_key: secret().optional().describe('Best as `${NAME}`.'),
  part_size: bytes({ min: smallestPart, max: largestPart })
    .prefault('8MiB')
    .describe('Size of the parts of an upload; an upload has at most 10,000 parts.'),
  concurrency: z
    .int()
    .min(1)
    .max(16)
    .default(3)
    .describe('Parts of one upload that are in memory at a time.'),
})

/** With one key of a credential and without the other, S3 would be asked as somebody else. */
function lackingKey(keys: z.output<typeof block>): readonly string[] {
  const pair = ['access_key_id', 'secret_access_key'] as const
  const lacking = pair.filter((name) => !keys[name])
  return lacking.length === 1 ? [...lacking, ...pair.filter((name) => keys[name])] : []
}

const keys = block
  .superRefine(
    (given, ctx) => {
      const [lacking, other] = lackingKey(given)
      if (lacking === undefined) return
      const message = `is missing; write it, or remove ${other}`
      ctx.addIssue({ code: 'custom', path: [lacking], message, input: undefined })
    },
    // Also when another key is wrong, because `tollgate check` tells all problems at once.
    { when: ({ value }) => typeof value === 'object' && value !== null },
  )
  .transform(resolve)
  .describe('Keeps files in an S3 bucket.')

function resolve(keys: z.output<typeof block>): S3Config {
  const { bucket, prefix, region, endpoint, concurrency } = keys
  const { access_key_id: accessKeyId, secret_access_key: secretAccessKey } = keys
  return {
    bucket,
    prefix,
    region,
    concurrency,
    ...(endpoint !== undefined && { endpoint }),
    pathStyle: keys.path_style ?? endpoint !== undefined,
    ...(accessKeyId && secretAccessKey && { credentials: { accessKeyId, secretAccessKey } }),
    partBytes: keys.part_size,
  }
}

export const s3 = {
  keys,
  example: '{bucket: files}',
  async open(config, { trialMs }) {
    const { s3Store } = await import('./s3.ts')
    if (trialMs === undefined) return s3Store(config)
    const bounds = { answerMs: trialMs, connectMs: trialMs, patienceMs: trialMs / 2 }
    return s3Store({ ...config, partBytes: smallestPart }, bounds)
  },
  uploadBytes: ({ partBytes, concurrency }) => partBytes * concurrency,
  secrets: ({ credentials }) => (credentials ? [credentials.secretAccessKey] : []),
} satisfies StoreDriver<S3Config>
