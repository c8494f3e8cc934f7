// Clients that leave within an upload, at any byte of it: nothing is left, without a sweeper. A client that leaves
// after the last byte has a file. SEED=… repeats a run; `npm run test:long` does more.

import { connect } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import { callerOf } from '../fixtures/files-http.ts'
import type { FilesCaller } from '../fixtures/files-http.ts'
import { assertNothingLeft } from '../fixtures/files-left.ts'
import { formOf } from '../fixtures/files-uploads.ts'
import { partBytes, startFilesWorld } from '../fixtures/files-world.ts'
import type { WorldSetup } from '../fixtures/files-world.ts'
import { startGateway } from '../fixtures/gateway.ts'
import type { InProcess } from '../fixtures/gateway.ts'
import { boundary, field } from '../fixtures/multipart.ts'
import { seeded } from '../fixtures/random.ts'
import type { Random } from '../fixtures/random.ts'
import { startS3 } from '../fixtures/s3-server.ts'
import { until } from '../fixtures/until.ts'

const seed = Number(process.env.SEED ?? Date.now() % 1_000_000)
const cuts = process.env.LONG ? 200 : 20
const atOnce = 4

interface Cut {
  readonly where: string
  readonly request: Buffer
  readonly headBytes: number
  readonly at: number
  readonly isReset: boolean
  /** Whether the cut is at the last byte that the gateway needs. */
  readonly isWhole: boolean
}

const wheres = ['headers', 'fields', 'file', 'file', 'file', 'last bytes', 'end'] as const

function cutOf(own: FilesCaller, random: Random, count: number): Cut {
  const where = wheres[count % wheres.length] ?? 'end'
  const isLarge = random(3) > 0
  const content = Buffer.alloc(random(isLarge ? 3 * partBytes : 100_000), 'content ')
  const body = formOf(own, content, [field('purpose', 'user_data')])
  const isChunked = random(2) === 0
  const head = Buffer.from(
    [
      'POST /api/files/upload HTTP/1.1',
      'Host: gateway',
      `Authorization: Bearer ${own.key}`,
      `Content-Type: multipart/form-data; boundary=${boundary}`,
      isChunked ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`,
      '\r\n',
    ].join('\r\n'),
  )
  const request = Buffer.concat([head, isChunked ? chunked(body, random) : body])
  const fileAt = request.indexOf('name="file"')
  const endAt = request.lastIndexOf(`\r\n--${boundary}--`)
  const at = {
    headers: random(head.length),
    fields: head.length + random(fileAt - head.length),
    file: fileAt + random(endAt - fileAt),
    'last bytes': endAt + random(request.length - endAt),
    end: request.length,
  }[where]
  const isWhole = where === 'end'
  return {
    where,
    request,
    headBytes: head.length,
    at,
    isReset: random(2) === 0 && !isWhole,
    isWhole,
  }
}

function chunked(body: Buffer, random: Random): Buffer {
  const pieces: Buffer[] = []
  for (let at = 0; at < body.length;) {
    const piece = body.subarray(at, at + 1 + random(200_000))
    at += piece.length
    pieces.push(Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n'))
  }
  return Buffer.concat([...pieces, Buffer.from('0\r\n\r\n')])
}

/** Resolves when the connection is closed. */
async function send(t: Test, url: string, { request, at, isReset, isWhole }: Cut): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const socket = connect({ host: '127.0.0.1', port: Number(new URL(url).port) })
  t.teardown(() => void socket.destroy())
  socket.on('error', () => undefined).on('close', () => resolve())
  socket.write(request.subarray(0, at), () => {
    if (isReset) socket.resetAndDestroy()
    else if (!isWhole) socket.destroy()
    // A client that closes at its last byte may be gone before the gateway has read that byte.
    else socket.once('data', () => socket.destroy())
  })
  await promise
}

/** Number of uploads whose exchange has ended. */
function endedIn({ log }: InProcess): number {
  return log.filter((line) => line.includes('/files/upload')).length
}

async function leaveEverywhere(t: Test, setup: WorldSetup): Promise<void> {
  const world = await startFilesWorld(t, setup)
  const gateway = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const own = await callerOf(gateway, (await gateway.account(1000)).key)
  const random = seeded(seed)
  const all = Array.from({ length: cuts }, (_, count) => cutOf(own, random, count))
  const left = [...all]
  const next = async () => {
    for (let cut = left.pop(); cut; cut = left.pop()) await send(t, gateway.url, cut)
  }
  await Promise.all(Array.from({ length: atOnce }, next))
  const begun = all.filter(({ at, headBytes, isReset }) => at > headBytes && !isReset).length
  await until(() => endedIn(gateway) >= begun)
  // A reset may overtake bytes that were sent before.
  await gateway.close()
  await assertNothingLeft(t, world, 'after clients left')
  const objects = await world.store.list('files/')
  t.equal(objects.length, all.filter(({ isWhole }) => isWhole).length, 'those that had sent all')
  t.comment(all.map(({ where, at, request }) => `${where} ${at}/${request.length}`).join(', '))
}

t.test(`on the disk: clients that leave at ${cuts} points leave nothing (SEED=${seed})`, (t) =>
  leaveEverywhere(t, {}),
)

t.test(`on S3: clients that leave at ${cuts} points leave nothing (SEED=${seed})`, async (t) =>
  leaveEverywhere(t, { s3: await startS3(t) }),
)
