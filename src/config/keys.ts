// Everything that gateway.yaml may have: each key with its default and its sentence. The schema for editors, the
// reference and the loader are made from this. The only other files with keys or defaults are model-keys.ts,
// plan-keys.ts, host-port.ts, the plugins, the drivers of stores (store/drivers.ts), and the parts with settings in a
// plugin's block (settings.ts).

import { defaultAdmin, defaultPort } from './host-port.ts'
import { drivers, storeKeys } from '../store/drivers.ts'
import { longestFlushMs, models } from './model-keys.ts'
import { plans } from './plan-keys.ts'
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
      .describe('Address ranges of proxies whose X-Forwarded-For is believed.'),
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
    .describe('Where the admin API and the metrics are served; without a host, on 127.0.0.1.'),
  token: secret()
    .default('')
    .describe('The admin token. By default one is made, in `admin-token` in the data folder.'),
  hosts: z
    .array(host())
    .default([])
    .describe('Host names, besides loopback, that the Host header may have on the admin listener.'),
})

const redisTls = z.strictObject({
  ca: pemFile('certificate file')
    .optional()
    .describe("PEM file of the authority that signed Redis' certificate."),
  cert: pemFile('certificate file').optional().describe("PEM file: the gateway's certificate."),
  key: pemFile('private key file').optional().describe("PEM file: the gateway's private key."),
})

const places = () => z.array(hostPort()).min(1, { error: 'write at least one host:port' })

/** Exactly one of `url`, `cluster` and `sentinels`: check.ts checks that. */
const redisBlock = z.strictObject({
  url: redisUrl().optional().describe('Where Redis listens.'),
  cluster: places()
    .optional()
    .describe('In place of `url`: `host:port` of some nodes of a Cluster; they name the others.'),
  sentinels: places()
    .optional()
    .describe('In place of `url`: `host:port` of some Sentinels; they name the others.'),
  name: z.string().min(1).optional().describe('With `sentinels`: their name of the primary.'),
  db: z.int().min(0).optional().describe('With `sentinels`: number of the database, by default 0.'),
  tls: redisTls.optional().describe('Certificates; implies TLS, also of Sentinels.'),
  username: z.string().optional().describe('ACL user.'),
  password: secret().optional().describe('Password, best as `${NAME}`.'),
  sentinel_username: z
    .string()
    .optional()
    .describe('With `sentinels`: their own ACL user, if they have one.'),
  sentinel_password: secret()
    .optional()
    .describe('With `sentinels`: their own password, if they have one.'),
})

const redis = z.union([z.literal('embedded'), redisUrl(), redisBlock], {
  error: 'write embedded, redis://host:6379/0, {url, tls}, {cluster} or {sentinels, name}',
})

/** Exactly one of them: check.ts checks that. */
const storeBlock = z.strictObject(storeKeys())
const storeExamples = Object.entries(drivers).map(([name, { example }]) => `{${name}: ${example}}`)

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
    .describe(
      'Largest body of a message sent to a session; without its data URLs at most `json_api`.',
    ),
  json_v1: bytes().prefault(defaultSizes.json_v1).describe('Largest JSON body on /v1.'),
  sse_line: bytes({ min: 1024 }).prefault('8MiB').describe("Longest line of a backend's stream."),
  heartbeat: duration().prefault('15s').describe('How often a silent stream gets a comment.'),
  reader_stall: duration()
    .prefault('30s')
    .describe('A client that reads nothing of its answer for this long is disconnected.'),
  json_body: duration().prefault('60s').describe('Time for a whole JSON body to arrive.'),
  headers: duration().prefault('60s').describe('Time for the headers of a request to arrive.'),
  keep_alive: duration().prefault('75s').describe('How long an idle connection is kept.'),
  first_byte: duration()
    .prefault('30s')
    .describe(
      'If a backend has sent no content of a stream after this time, the client gets 200 and heartbeats; from then on, errors are events of the stream.',
    ),
  flush: duration({ min: 0, max: longestFlushMs })
    .prefault('0ms')
    .describe(
      'The longest time for which an event of a stream may wait, so that several are read and written at once; 0ms: none waits. The first content never waits, and no event waits whose stream is slower than this.',
    ),
  session_first_event: duration()
    .prefault('5s')
    .describe('As `first_byte`, for a message of a session.'),
  session: bytes()
    .prefault('32MiB')
    .describe('All messages of one session together; a full session refuses new ones.'),
  instructions: bytes({ min: 0 })
    .prefault('32KiB')
    .describe('Instructions of a session. Lists of sessions come without them.'),
  attachments: z.int().min(0).default(10).describe('Images and files in one message.'),
  answer: bytes().prefault('64MiB').describe('Largest answer of a backend that is not streamed.'),
  bodies: bytes()
    .prefault(defaultSizes.bodies)
    .describe(
      'All request bodies in memory together, with the texts that are read from them. One account gets at most half. Several workers have a part each; by default each has 128MiB.',
    ),
  body_rate: bytes()
    .prefault('32KiB')
    .describe(
      'Bytes a second that a body of more than 64 KiB must reach on average, measured after 5 s.',
    ),
  uploads: bytes()
    .prefault('1GiB')
    .describe(
      'Memory of all running uploads together. An upload to S3 takes `part_size` × `concurrency`.',
    ),
  upload_idle: duration()
    .prefault('30s')
    .describe('An upload of which nothing arrives for this long is ended.'),
  upload_rate: bytes({ min: 0 })
    .prefault('1KiB')
    .describe(
      'Bytes a second that an upload must reach over each `upload_idle`; a slower one is ended.',
    ),
  unsent: bytes()
    .prefault('96MiB')
    .describe(
      'Bytes of answers that clients have not read yet, together. A client with too many is disconnected. Answers that need no key, such as the files of the account page, have a quarter as much of their own, and at least 8 MiB in each process.',
    ),
  readers: z
    .int()
    .min(2)
    .default(10_000)
    .describe(
      'Streams that are read again, and downloads, together. One account gets at most half.',
    ),
})

const log = z.strictObject({
  level: z
    .enum(['debug', 'info', 'warn', 'error', 'silent'])
    .default('info')
    .describe('The least important line that is written.'),
  format: z
    .enum(['json', 'pretty'])
    .optional()
    .describe('`json` for machines, `pretty` for people; by default `pretty` on a terminal only.'),
})

/** The schema of the whole file, with the blocks of these plugins. */
export function gatewayKeys(plugins: readonly PluginKeys[]) {
  return z.strictObject({
    listen: z
      .union([port(), listenBlock], { error: 'write a port, or a block {host, port, tls}' })
      .prefault(defaultPort)
      .describe('Where clients connect; without a host, on every address.'),
    admin: admin.prefault({}).describe("The operator's own listener: admin API, metrics, health."),
    data: path()
      .prefault('./data')
      .describe('Folder for what the gateway keeps: embedded Redis, files, settlements.'),
    workers: z
      .union([z.literal('auto'), z.int().min(1).max(256)], {
        error: 'write auto, or a number from 1',
      })
      .default(1)
      .describe('Processes that share the port of clients; `auto` is one for each core.'),
    redis: redis
      .prefault('embedded')
      .describe('Where balances and keys are; `embedded` starts its own Redis.'),
    store: z
      .union([z.literal('disk'), storeBlock], {
        error: `write disk, ${storeExamples.join(' or ')}`,
      })
      .prefault('disk')
      .describe('Where files are; `disk` is the folder `store` in the data folder.'),
    models: models.describe('The models that clients can use, by the id they send.'),
    plans: plans
      .default({})
      .describe('Limits of accounts by plan; the plan `default` always exists.'),
    plugins: pluginKeys(plugins)
      .prefault({})
      .describe(
        "Each plugin's own block; `false` switches a plugin off, a path loads your own plugin.",
      ),
    limits: limits.prefault({}).describe('Sizes and times that protect the gateway.'),
    reload: z
      .enum(['watch', 'signal'])
      .default('watch')
      .describe(
        'When the file is read again: `watch`, when it or a file that it names has changed; `signal`, on SIGHUP and `tollgate reload` alone.',
      ),
    log: log.prefault({}).describe('What is written to stdout.'),
    shutdown_delay: duration({ min: 0 })
      .prefault('0s')
      .describe(
        'After SIGTERM, `/readyz` already says no, and new requests are still served for this long: longer than a load balancer needs to notice.',
      ),
    drain: duration({ min: 0 })
      .prefault('30s')
      .describe(
        'After SIGTERM and `shutdown_delay`, streams may go on for this long before the gateway ends them.',
      ),
  })
}

function pluginKeys(plugins: readonly PluginKeys[]) {
  const blocks = plugins.map(({ name, schema }) => {
    const help = `write the plugin's block, or false to switch it off`
    const block = z.union([z.literal(false), schema], { error: help }).prefault({})
    const { description } = z.globalRegistry.get(schema) ?? {}
    return [name, description ? block.describe(description) : block] as const
  })
  return z.strictObject(Object.fromEntries(blocks))
}

export type GatewayKeys = z.output<ReturnType<typeof gatewayKeys>>
