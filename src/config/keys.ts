// Everything that gateway.yaml may have: each key with its default and its sentence. The schema for editors, the
// reference and the loader are made from this. Of other files only model-keys.ts, host-port.ts, the plugins and
// the drivers of stores (store/driver.ts) and the parts with settings in a plugin's block (settings.ts) have keys or
// defaults.

import { defaultAdmin, defaultPort } from './host-port.ts'
import { storeKeys } from '../store/drivers.ts'
import { models, plans } from './model-keys.ts'
import { bytes, duration, path, pemFile, secret, withLater, z, type Schema } from './schema.ts'
import { cidr, host, hostPort, port, redisUrl } from './words.ts'

/** What the loader needs to know of a plugin. */
export interface PluginKeys {
  readonly name: string
  readonly schema: Schema
}

const tls = z.strictObject({
  cert: pemFile('certificate file').describe('PEM file: the certificate and its chain.'),
  key: pemFile('private key file').describe('PEM file: the private key.'),
})

const listenBlock = withLater(
  z.strictObject({
    host: host().default('0.0.0.0').describe('Address to listen on.'),
    port: port().default(defaultPort).describe('Port to listen on; 0 takes a free one.'),
    tls: tls.optional().describe('Serves HTTPS with this certificate.'),
    trusted_proxies: z
      .array(cidr())
      .default([])
      .describe('Proxies whose X-Forwarded-For is believed, as address ranges.'),
  }),
  ['proxy_protocol'],
)

const adminListen = z.strictObject({
  host: host().default(defaultAdmin.host).describe('Address to listen on.'),
  port: port().default(defaultAdmin.port).describe('Port to listen on; 0 takes a free one.'),
})

const admin = z.strictObject({
  listen: z
    .union([port(), hostPort(), adminListen], { error: 'write a port, or host:port' })
    .prefault(`${defaultAdmin.host}:${defaultAdmin.port}`)
    .describe('Where the admin API and the metrics are served; a port alone is on 127.0.0.1.'),
  token: secret()
    .default('')
    .describe('The admin token; made into `admin-token` in the data folder where none is given.'),
  hosts: z
    .array(host())
    .default([])
    .describe('Host names, besides loopback, by which the admin listener may be called.'),
})

const redisTls = z.strictObject({
  ca: pemFile('certificate file').optional().describe('PEM file of the authority that signed it.'),
  cert: pemFile('certificate file').optional().describe("PEM file: the gateway's certificate."),
  key: pemFile('private key file').optional().describe("PEM file: the gateway's private key."),
})

const redisBlock = withLater(
  z.strictObject({
    url: redisUrl().describe('Where Redis listens.'),
    tls: redisTls.optional().describe('Certificates; implies TLS.'),
    username: z.string().optional().describe('ACL user.'),
    password: secret().optional().describe('Password, best as `${NAME}`.'),
  }),
  ['cluster', 'sentinels', 'name'],
)

const redis = z.union([z.literal('embedded'), redisUrl(), redisBlock], {
  error: 'write embedded, redis://host:6379/0 or {url, tls}',
})

/** Exactly one of them: check.ts checks that. */
const storeBlock = z.strictObject(storeKeys())

/** The sizes that check.ts compares with each other. */
export const defaultSizes = {
  json_api: '1MiB',
  json_message: '20MiB',
  json_v1: '32MiB',
  bodies: '128MiB',
} as const

export const limits = z.strictObject({
  json_api: bytes().prefault(defaultSizes.json_api).describe('Largest JSON body on /api.'),
  json_message: bytes()
    .prefault(defaultSizes.json_message)
    .describe('Largest body of a message sent to a session, of which 1 MiB outside data URLs.'),
  json_v1: bytes().prefault(defaultSizes.json_v1).describe('Largest JSON body on /v1.'),
  sse_line: bytes({ min: 1024 }).prefault('8MiB').describe("Longest line of a backend's stream."),
  heartbeat: duration().prefault('15s').describe('A silent stream gets a comment this often.'),
  reader_stall: duration()
    .prefault('30s')
    .describe('A client that takes nothing of its answer for so long is dropped.'),
  json_body: duration().prefault('60s').describe('For the whole of a JSON body to arrive.'),
  headers: duration().prefault('60s').describe('For the headers of a request to arrive.'),
  keep_alive: duration().prefault('75s').describe('An idle connection is kept for so long.'),
  first_byte: duration()
    .prefault('30s')
    .describe('From the request sent, first content is waited for so long before a stream is 200.'),
  session_first_event: duration()
    .prefault('5s')
    .describe('The same for a message of a session: after it, errors come in the stream.'),
  session: bytes()
    .prefault('32MiB')
    .describe('All messages of one session together; a full session takes no more.'),
  instructions: bytes({ min: 0 })
    .prefault('32KiB')
    .describe('Instructions of a session. Lists of sessions come without them.'),
  attachments: z.int().min(0).default(10).describe('Images and files in one message.'),
  answer: bytes().prefault('64MiB').describe("Largest whole (not streamed) answer of a backend's."),
  bodies: bytes()
    .prefault(defaultSizes.bodies)
    .describe(
      'All request bodies in memory together, with the texts that are read from them. One account alone has half.',
    ),
  body_rate: bytes()
    .prefault('32KiB')
    .describe(
      'A body of more than 64 KiB has to come as fast as this in a second, on average, after 5 s.',
    ),
  uploads: bytes()
    .prefault('1GiB')
    .describe('Memory of all uploads that run, together; each needs that of its parts.'),
  upload_idle: duration()
    .prefault('30s')
    .describe('An upload of which nothing arrives for so long is given up.'),
  upload_rate: bytes({ min: 0 })
    .prefault('1KiB')
    .describe('Bytes a second that an upload keeps up over each `upload_idle`, or it is given up.'),
  unsent: bytes()
    .prefault('96MiB')
    .describe(
      'What clients have not taken of their answers, together; who has too much is dropped.',
    ),
  readers: z
    .int()
    .min(2)
    .default(10_000)
    .describe('Streams that are read again and downloads, together; an account gets half at most.'),
})

const log = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'])
    .default('info')
    .describe('The least important line that is written.'),
  format: z
    .enum(['json', 'pretty'])
    .optional()
    .describe('`json` for machines, `pretty` for people; not given, `pretty` on a terminal only.'),
})

/** The schema of the whole file, with the blocks of these plugins. */
export function gatewayKeys(plugins: readonly PluginKeys[]) {
  return withLater(
    z.strictObject({
      listen: z
        .union([port(), listenBlock], { error: 'write a port, or a block {host, port, tls}' })
        .prefault(defaultPort)
        .describe('Where clients connect; a port alone is on every address.'),
      admin: admin
        .prefault({})
        .describe("The operator's own listener: admin API, metrics, health."),
      data: path()
        .prefault('./data')
        .describe('Folder for what the gateway keeps: embedded Redis, files, settlements.'),
      redis: redis
        .prefault('embedded')
        .describe('Where balances and keys live; `embedded` is a Redis of its own.'),
      store: z
        .union([z.literal('disk'), storeBlock], {
          error: 'write disk, {disk: {path: ./files}} or {s3: {bucket: files}}',
        })
        .prefault('disk')
        .describe('Where files live; `disk` is the folder `store` in the data folder.'),
      models: models.describe('The models that clients can use, by the id they send.'),
      plans: plans
        .default({})
        .describe('Limits of accounts by plan; `default` is there also when not described.'),
      plugins: pluginKeys(plugins)
        .prefault({})
        .describe("Each plugin's own block; `false` switches one off, a path loads one of yours."),
      limits: limits.prefault({}).describe('Sizes and times that protect the gateway.'),
      log: log.prefault({}).describe('What is written to stdout.'),
      drain: duration({ min: 0 })
        .prefault('30s')
        .describe('On SIGTERM, streams get so long before they are ended.'),
    }),
    ['workers', 'reload'],
  )
}

function pluginKeys(plugins: readonly PluginKeys[]) {
  const blocks = plugins.map(({ name, schema }) => {
    const help = `write the plugin's block, or false to switch it off`
    return [name, z.union([z.literal(false), schema], { error: help }).prefault({})] as const
  })
  return z.strictObject(Object.fromEntries(blocks))
}

export type GatewayKeys = z.output<ReturnType<typeof gatewayKeys>>
