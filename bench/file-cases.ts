// The cases of bench/files.ts: who moves which files, each contestant once a round, the one it is compared with first.

import type { ChildProcess } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Contestant } from './contestants.ts'
import type { FileLoadOrder, FileLoadReport } from './file-load.ts'
import {
  curl,
  downloadFile,
  freshened,
  idOf,
  keyOf,
  measured,
  removeFile,
  uploadFile,
} from './file-measures.ts'
import type { Caller, Moved, Sample } from './file-measures.ts'
import { ask } from './processes.ts'
import type { Redis } from './redis.ts'
import type { SdkOrder, SdkPlace, SdkReport } from './sdk.ts'

export interface Ground {
  readonly disk: Caller
  readonly s3: Caller
  readonly nginx: Contestant & { readonly copyingPort: number }
  readonly sdk: ChildProcess
  readonly load: ChildProcess
  readonly redis: Redis
  readonly place: SdkPlace
  readonly folder: string
  /** Paths. `large` is random bytes, `text` has the same size, `middle` is for warming up. */
  readonly files: Readonly<Record<'large' | 'text' | 'middle' | 'mib', string>>
  readonly mib: number
  /** Requests for small files in a round. */
  readonly count: number
}

export interface Case {
  readonly title: string
  readonly unit: 'MiB' | 'request'
  /** How the first row must compare with `row`: the ratio, if it has one. */
  readonly target?: { readonly row: string; readonly ratio: number }
  readonly rows: readonly (readonly [name: string, run: () => Promise<Sample>])[]
}

const lanes = 4
const smallBytes = 16 * 1024
const partBytes = 8 * 2 ** 20
const concurrency = 3

export function casesOf(ground: Ground): readonly Case[] {
  const { disk, s3, files, mib } = ground
  const many = Math.ceil(mib / 2)
  return [
    {
      title: `Upload to S3, ${mib} MiB`,
      unit: 'MiB',
      target: { row: 'Tollgate', ratio: 0.6 },
      rows: [
        ['AWS SDK', () => sdkMoves(ground, 'upload', files.large)],
        ['Tollgate', () => uploads(ground, s3, files.large)],
        ['Tollgate, text', () => uploads(ground, s3, files.text)],
      ],
    },
    {
      title: `Upload to S3, ${many} × 1 MiB, ${lanes} at once`,
      unit: 'MiB',
      rows: [
        [
          'AWS SDK',
          () => sdkMoves(ground, 'upload', files.mib, { count: many, lanes, units: many }),
        ],
        ['Tollgate', () => smallUploads(ground, s3, { bytes: 2 ** 20, count: many })],
      ],
    },
    {
      title: `Download from S3, ${mib} MiB`,
      unit: 'MiB',
      rows: [
        ['AWS SDK', () => sdkDownloads(ground)],
        ['Tollgate', () => downloads(ground, s3)],
      ],
    },
    {
      title: `Upload to disk, ${mib} MiB`,
      unit: 'MiB',
      rows: [
        ['nginx, PUT, without fsync', () => nginxTakes(ground)],
        ['Tollgate', () => uploads(ground, disk, files.large)],
        ['Tollgate, text', () => uploads(ground, disk, files.text)],
      ],
    },
    {
      title: `Download from disk, ${mib} MiB`,
      unit: 'MiB',
      target: { row: 'Tollgate', ratio: 0.4 },
      rows: [
        ['nginx, sendfile', () => nginxServes(ground, ground.nginx.aim.port)],
        ['nginx, without sendfile', () => nginxServes(ground, ground.nginx.copyingPort)],
        ['Tollgate', () => downloads(ground, disk)],
      ],
    },
    {
      title: `${smallBytes / 1024} KiB files on disk, ${lanes} connections`,
      unit: 'request',
      rows: [
        ['nginx, download', () => nginxServesSmall(ground)],
        ['Tollgate, download', () => smallDownloads(ground, disk)],
        ['Tollgate, upload', () => smallUploads(ground, disk, { bytes: smallBytes })],
        ['Tollgate, upload to S3', () => smallUploads(ground, s3, { bytes: smallBytes })],
        ['Tollgate, download from S3', () => smallDownloads(ground, s3)],
      ],
    },
  ]
}

type SdkMore = Partial<Pick<SdkOrder, 'count' | 'lanes'>> & { readonly units?: number }

async function sdkMoves(
  { sdk, place, mib }: Ground,
  kind: SdkOrder['kind'],
  file: string,
  more: SdkMore = {},
): Promise<Sample> {
  const { count = 1, lanes = 1, units = mib } = more
  const key = `bench/${lanes}`
  const order = { ...place, kind, key, file, count, lanes, partBytes, concurrency }
  return measured({ units, pids: [sdk.pid ?? 0] }, async () => {
    const { ms, failure } = await ask<SdkReport>(sdk, order satisfies SdkOrder)
    if (failure) throw new Error(failure)
    return ms
  })
}

let isUploaded = false

async function sdkDownloads(ground: Ground): Promise<Sample> {
  const { files, mib } = ground
  if (!isUploaded) await sdkMoves(ground, 'upload', files.large)
  isUploaded = true
  return sdkMoves(ground, 'download', files.large, { count: times, units: times * mib })
}

async function uploads(ground: Ground, caller: Caller, path: string): Promise<Sample> {
  const { files, mib: units, redis } = ground
  const baseBytes = await freshened(caller, files.mib)
  const warm = await uploadFile(caller, files.middle)
  let id = ''
  const pids = caller.gateway.pids()
  const sample = await measured({ units, pids, redis, baseBytes }, async () => {
    const { ms, text } = await uploadFile(caller, path)
    id = idOf(text)
    return ms
  })
  for (const one of [idOf(warm.text), id]) await removeFile(caller, one)
  return sample
}

const stored = new Map<string, string>()

/** Uploads the file once, and resolves with its id. */
async function storedFile(caller: Caller, path: string): Promise<string> {
  const key = `${caller.gateway.adminPort} ${path}`
  const known = stored.get(key)
  if (known !== undefined) return known
  const id = idOf((await uploadFile(caller, path)).text)
  stored.set(key, id)
  return id
}

/** Several downloads in a row, because one from disk takes only a tenth of a second. */
const times = 4
const again = (units: number) => ({ units: times * units, requests: times })

async function often(move: () => Promise<Moved>): Promise<number> {
  let ms = 0
  for (let n = 0; n < times; n++) ms += (await move()).ms
  return ms
}

async function downloads({ files, mib: units, redis }: Ground, caller: Caller): Promise<Sample> {
  const id = await storedFile(caller, files.large)
  const warm = await storedFile(caller, files.middle)
  const baseBytes = await freshened(caller, files.mib)
  await downloadFile(caller, warm)
  return measured({ ...again(units), pids: caller.gateway.pids(), redis, baseBytes }, () =>
    often(() => downloadFile(caller, id)),
  )
}

/** nginx serves the gateway's own file, so that both serve the same bytes. */
async function nginxServes({ nginx, disk, folder, files, mib }: Ground, port: number) {
  const path = await pathOf(folder, await storedFile(disk, files.large))
  const url = `http://127.0.0.1:${port}/${path}`
  await curl(['-o', '/dev/null', url])
  return measured({ ...again(mib), pids: nginx.pids() }, () =>
    often(() => curl(['-o', '/dev/null', url])),
  )
}

async function pathOf(folder: string, id: string): Promise<string> {
  const paths = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  return paths.find((path) => path.endsWith(`/${id}`)) ?? ''
}

async function nginxTakes({ nginx, folder, files, mib }: Ground): Promise<Sample> {
  const url = `http://127.0.0.1:${nginx.aim.port}/put`
  const put = (file: string) => curl(['-T', file, url])
  await put(files.middle)
  const sample = await measured(
    { units: mib, pids: nginx.pids() },
    async () => (await put(files.large)).ms,
  )
  rmSync(join(folder, 'put'))
  return sample
}

interface Small {
  readonly bytes: number
  readonly count?: number
}

/** The uploaded files stay: the account has enough storage. */
export async function smallUploads(
  { load, redis, ...ground }: Ground,
  { gateway, session }: Caller,
  { bytes, count = ground.count }: Small,
): Promise<Sample> {
  const edge = 'bench-boundary'
  const part = `--${edge}\r\nContent-Disposition: form-data; name=`
  const before = `${part}"session_id"\r\n\r\n${session}\r\n${part}"file"; filename="small.bin"\r\nContent-Type: application/octet-stream\r\n\r\n`
  const after = `\r\n--${edge}--\r\n`
  const length = before.length + bytes + after.length
  const head = `POST /api/files/upload HTTP/1.1\r\nHost: bench\r\nAuthorization: ${keyOf(gateway)}\r\nContent-Type: multipart/form-data; boundary=${edge}\r\nContent-Length: ${length}\r\n\r\n`
  const body = { before, bytes, after }
  const order = { port: gateway.aim.port, heads: [head], body, connections: lanes }
  await loaded(load, { ...order, count: warmUps(count) })
  const sample = await measured({ ...both(count), pids: gateway.pids(), redis }, async () => {
    const { ms, made } = await loaded(load, { ...order, count })
    smalls.set(gateway, made)
    return ms
  })
  return sample
}

const both = (count: number) => ({ units: count, requests: count })

const smalls = new Map<Contestant, readonly string[]>()

async function smallDownloads(ground: Ground, { gateway, session }: Caller): Promise<Sample> {
  const { load, redis, count } = ground
  if (!smalls.has(gateway)) {
    await smallUploads(ground, { gateway, session }, { bytes: smallBytes, count: 200 })
  }
  const heads = (smalls.get(gateway) ?? []).map(
    (id) =>
      `GET /api/files/${id} HTTP/1.1\r\nHost: bench\r\nAuthorization: ${keyOf(gateway)}\r\n\r\n`,
  )
  const order = { port: gateway.aim.port, heads, body: null, connections: lanes }
  await loaded(load, { ...order, count: warmUps(count) })
  return measured(
    { ...both(count), pids: gateway.pids(), redis },
    async () => (await loaded(load, { ...order, count })).ms,
  )
}

async function nginxServesSmall(ground: Ground): Promise<Sample> {
  const { load, nginx, disk, count } = ground
  if (!smalls.has(disk.gateway)) {
    await smallUploads(ground, disk, { bytes: smallBytes, count: 200 })
  }
  const paths = readdirSync(ground.folder, { recursive: true, encoding: 'utf8' })
  const made = new Set(smalls.get(disk.gateway))
  const heads = paths
    .filter((path) => made.has(path.slice(path.lastIndexOf('/') + 1)))
    .map((path) => `GET /${path} HTTP/1.1\r\nHost: bench\r\n\r\n`)
  const order = { port: nginx.aim.port, heads, body: null, connections: lanes }
  await loaded(load, { ...order, count: warmUps(count) })
  return measured(
    { units: count, pids: nginx.pids() },
    async () => (await loaded(load, { ...order, count })).ms,
  )
}

const warmUps = (count: number) => Math.ceil(count / 4)

async function loaded(load: ChildProcess, order: FileLoadOrder): Promise<FileLoadReport> {
  const report = await ask<FileLoadReport>(load, order)
  if (report.failure) throw new Error(report.failure)
  return report
}
