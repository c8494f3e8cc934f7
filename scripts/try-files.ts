// `npm run try:files`: what is too large for the tests. Files of 1 GiB go up and down through a gateway process, one
// and four at a time, on the disk and on a real S3 server. Each must come back with the SHA-256 that it had, and the
// gateway's memory must stay below its target. Exits with 1 if a file differs or a target is missed. Nothing is kept.

import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { finished } from 'node:stream/promises'
import { parseArgs } from 'node:util'
import { cpuSeconds, peakBytes, resetPeak, rssBytes } from '../bench/processes.ts'
import { callerOf } from '../test/fixtures/files-http.ts'
import type { FilesCaller } from '../test/fixtures/files-http.ts'
import { spawnGateway } from '../test/fixtures/gateway.ts'
import { s3Yaml, startS3 } from '../test/fixtures/s3-server.ts'
import { teardownOf } from '../test/fixtures/teardown.ts'
import { tempDir } from '../test/fixtures/temp-dir.ts'

const { values } = parseArgs({
  options: {
    mib: { type: 'string', default: '1024' },
    store: { type: 'string', multiple: true, default: ['disk', 's3'] },
    'at-once': { type: 'string', multiple: true, default: ['1', '4'] },
    node: { type: 'string', default: '' },
  },
})
const MiB = 2 ** 20
const bytes = Number(values.mib) * MiB
const block = Buffer.alloc(256 * 1024, 'What a file may hold. ')
/** How much the gateway's memory may grow, by the number of files at a time. */
const targetMiB: ReadonlyMap<number, number> = new Map([
  [1, 64],
  [4, 200],
])

let isGood = true
for (const store of values.store) {
  for (const atOnce of values['at-once'].map(Number)) {
    for (const line of await tried(store, atOnce)) process.stdout.write(`${line}\n`)
  }
}
process.exitCode = isGood ? 0 : 1

/** Uses a gateway that has served only one small file before. */
async function tried(store: string, atOnce: number): Promise<readonly string[]> {
  await using undo = new AsyncDisposableStack()
  const t = teardownOf(undo)
  const yaml = `models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }
plugins: { files: { max_bytes: 2GiB } }
plans: { default: { storage: 20GiB } }
store: ${JSON.stringify(await placeOf(t, store))}
`
  const env: Record<string, string> = values.node ? { NODE_OPTIONS: values.node } : {}
  const gateway = await spawnGateway(t, { yaml, env })
  const { key } = await gateway.account(1000)
  const caller = await callerOf(gateway, key)
  const files = Array.from({ length: atOnce }, (_, i) => ({ seed: i, sha256: '' }))
  await up(caller, gateway.url, { seed: 9, length: MiB }).then(({ id }) =>
    down(caller, gateway.url, id),
  )
  const upWas = await measured(gateway.pid, () =>
    Promise.all(files.map(({ seed }) => up(caller, gateway.url, { seed, length: bytes }))),
  )
  const downWas = await measured(gateway.pid, () =>
    Promise.all(upWas.result.map(({ id }) => down(caller, gateway.url, id))),
  )
  const isSame = upWas.result.every(({ sha256 }, i) => sha256 === downWas.result[i])
  isGood &&= isSame
  const told = (what: string, { seconds, beforeMiB, peakMiB, cpuS }: Measured<unknown>) => {
    const grownMiB = peakMiB - beforeMiB
    const most = targetMiB.get(atOnce) ?? Infinity
    if (store === 's3' && grownMiB >= most) isGood = false
    const rate = ((atOnce * bytes) / MiB / seconds).toFixed(0)
    const cpu = ((cpuS * 1000 * MiB) / (atOnce * bytes)).toFixed(2)
    return `${store.padEnd(5)}${atOnce} × ${what.padEnd(5)} ${rate.padStart(5)} MiB/s  ${cpu} CPU ms/MiB  RSS ${beforeMiB} → ${peakMiB} MiB (+${grownMiB}, target ${most})  SHA-256 ${isSame ? 'equal' : 'DIFFERS'}`
  }
  return [told('up', upWas), told('down', downWas)]
}

async function placeOf(t: Parameters<typeof startS3>[0], store: string): Promise<object> {
  if (store === 'disk') return { disk: { path: await tempDir(t) } }
  return { s3: s3Yaml(await startS3(t)) }
}

interface Measured<T> {
  readonly result: T
  readonly seconds: number
  readonly beforeMiB: number
  readonly peakMiB: number
  readonly cpuS: number
}

async function measured<T>(pid: number, run: () => Promise<T>): Promise<Measured<T>> {
  const pids = [pid]
  resetPeak(pids)
  const beforeMiB = Math.round(rssBytes(pids) / MiB)
  const cpuBefore = cpuSeconds(pids)
  const startedAt = performance.now()
  const result = await run()
  const seconds = (performance.now() - startedAt) / 1000
  const cpuS = cpuSeconds(pids) - cpuBefore
  return { result, seconds, beforeMiB, peakMiB: Math.round(peakBytes(pids) / MiB), cpuS }
}

interface Upload {
  readonly seed: number
  readonly length: number
}

interface Uploaded {
  readonly id: string
  readonly sha256: string
}

/** Every other upload has a Content-Length; the others are chunked. */
async function up(caller: FilesCaller, url: string, { seed, length }: Upload): Promise<Uploaded> {
  const mark = 'try-files-boundary'
  const head = `--${mark}\r\nContent-Disposition: form-data; name="session_id"\r\n\r\n${caller.session}\r\n--${mark}\r\nContent-Disposition: form-data; name="file"; filename="big.bin"\r\n\r\n`
  const tail = `\r\n--${mark}--\r\n`
  const headers = {
    authorization: `Bearer ${caller.key}`,
    'content-type': `multipart/form-data; boundary=${mark}`,
    ...(seed % 2 === 0 && { 'content-length': head.length + length + tail.length }),
  }
  const req = request(`${url}/api/files/upload`, { method: 'POST', headers })
  const answering = once(req, 'response') as Promise<[IncomingMessage]>
  answering.catch(() => undefined) // The write below fails, too.
  const hash = createHash('sha256')
  req.write(head)
  for (let sent = 0; sent < length; sent += block.length) {
    const piece = Buffer.from(block.subarray(0, Math.min(block.length, length - sent)))
    piece.writeUInt32LE(seed, 0)
    piece.writeUInt32LE(sent / block.length, 4)
    hash.update(piece)
    if (!req.write(piece)) await once(req, 'drain')
  }
  req.end(tail)
  const [res] = await answering
  const text = Buffer.concat(await res.toArray()).toString()
  if (res.statusCode !== 201) throw new Error(`${res.statusCode} ${text}`)
  const file = JSON.parse(text) as { id: string; bytes: number; sha256: string }
  const sha256 = hash.digest('hex')
  if (file.sha256 !== sha256 || file.bytes !== length) throw new Error(`another file: ${text}`)
  return { id: file.id, sha256 }
}

async function down({ key }: FilesCaller, url: string, id: string): Promise<string> {
  const headers = { authorization: `Bearer ${key}` }
  const req = request(`${url}/api/files/${id}`, { headers }).end()
  const [res] = (await once(req, 'response')) as [IncomingMessage]
  const hash = createHash('sha256')
  res.on('data', (chunk: Buffer) => hash.update(chunk))
  await finished(res)
  return hash.digest('hex')
}
