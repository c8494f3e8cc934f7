// `npm run s3`: an S3 server on this machine, for trying the gateway with one. Prints what to write into gateway.yaml,
// runs until Ctrl-C, and keeps its objects in data/s3. Do not store anything that matters in it: its key is public.

import { mkdir } from 'node:fs/promises'
import { relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { launchS3, removeSockets } from '../test/fixtures/s3-server.ts'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '8333' },
    dir: { type: 'string', default: resolve(import.meta.dirname, '../data/s3') },
  },
})
const first = Number(values.port)
const dir = resolve(values.dir)
await mkdir(dir, { recursive: true })
console.log('Starting. The first time, the server is fetched (50 MB) ...')
const access = { accessKeyId: 'tollgate', secretAccessKey: 'for-a-try-only' }
const server = await launchS3({ dir, first, ...access })
console.log(`An S3 server. It keeps its files in ${relative('.', dir) || '.'}. Ctrl-C ends it.

store:
  s3:
    bucket: ${server.bucket}
    endpoint: ${server.endpoint}
    access_key_id: ${server.accessKeyId}
    secret_access_key: ${server.secretAccessKey}`)

const end = async () => {
  await server.stop()
  await removeSockets(first)
}
process.once('SIGINT', () => void end())
process.once('SIGTERM', () => void end())
