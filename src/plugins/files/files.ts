// Files: /api/files, uploaded to the store and served from it.
// The routes are in this folder, the work is done in src/files.

import { bytes, duration, z } from '../../config/schema.ts'
import { refOf } from '../../exchange.ts'
import type { Route } from '../../exchange.ts'
import { createSlots } from '../../sharing/slots.ts'
import type { Slots } from '../../sharing/slots.ts'
import { keptThroughReloads } from '../../kept-through-reloads.ts'
import type { Gateway, Plugin } from '../../plugin.ts'
import { downloadRoute } from './download.ts'
import { resourceRoutes } from './resource.ts'
import { uploadRoute } from './upload.ts'

const schema = z.strictObject({
  max_bytes: bytes().prefault('100MiB').describe('The largest file that is accepted.'),
  allow: z
    .array(
      z.string().regex(/^(\*\/\*|[a-z]+\/(\*|[a-z0-9.+-]+))$/, {
        error: 'write a content type such as image/png, image/* or */*',
      }),
    )
    .min(1)
    .default(['*/*'])
    .describe(
      'Content types that are accepted. The gateway looks at the bytes, not at what the client says.',
    ),
  uploads: z.int().min(1).default(20).describe('Uploads of one account at the same time.'),
  downloads: z.int().min(1).default(100).describe('Downloads of one account at the same time.'),
  redirect: z
    .enum(['never', 'presigned'])
    .default('never')
    .describe('`presigned`: large downloads are redirected to the S3 store by a short-lived URL.'),
  redirect_above: bytes().prefault('16MiB').describe('Files larger than this are redirected.'),
  redirect_expires: duration({ min: 1000, max: 7 * 86_400_000 })
    .prefault('60s')
    .describe('How long such a URL can be used to begin a download.'),
})

export type FilesConfig = z.infer<typeof schema>

export const files: Plugin<FilesConfig> = {
  name: 'files',
  schema: schema.describe(
    'Uploads and downloads under `/api/files`, and files in messages of sessions.',
  ),
  setup(gateway, config) {
    const { shelf } = gateway
    if (!shelf) throw new TypeError('the plugin is on, and there is no shelf')
    checkStore(gateway, config)
    const { pools } = gateway
    const { uploading, downloading } = taken(gateway)
    const uploads = createSlots({ most: config.uploads, pool: pools.uploads, taken: uploading })
    const downloads = createSlots({
      most: config.downloads,
      pool: pools.readers,
      taken: downloading,
    })
    return {
      routes: [
        withSlot(uploadRoute(gateway, shelf, config), uploads),
        withSlot(downloadRoute(gateway, shelf, config), downloads),
        ...resourceRoutes(shelf.book),
      ],
    }
  },
}

/** Transfers that began before a reload count after it, too. */
const taken = keptThroughReloads(() => ({
  uploading: new Map<string, number>(),
  downloading: new Map<string, number>(),
}))

/** The most parts that S3 takes for one object. */
const mostParts = 10_000

/** Throws when the store can't do what the plugin's configuration asks for. */
function checkStore({ store, config }: Gateway, files: FilesConfig): void {
  if (files.redirect === 'presigned' && !store.presign) {
    throw new Error(
      'plugins.files.redirect: presigned needs an S3 store: a folder can sign no URLs. Set store.s3, or redirect: never.',
    )
  }
  if ('s3' in config.store && files.max_bytes > mostParts * config.store.s3.partBytes) {
    throw new Error(
      `plugins.files.max_bytes is more than ${mostParts} parts of store.s3.part_size, which S3 does not take. Raise part_size.`,
    )
  }
}

/** Each exchange of the route has a slot from its admission to its end. */
function withSlot(route: Route, slots: Slots): Route {
  return {
    ...route,
    begin(x) {
      let giveBack: (() => void) | undefined
      return {
        ...route.begin(x),
        async admit() {
          giveBack = slots.take(refOf(x))
        },
        done: () => giveBack?.(),
      }
    },
  }
}
