// The files of the page: all of the folder `page`, and single files of packages. They are read when the gateway starts,
// and a request only finds one of them by its exact path: no path of a request is ever a path of a disk.

import { hash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { findPackageJSON } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { GatewayError } from '../../errors.ts'
import { answering } from '../../exchange.ts'
import type { Answer, Exchange, Route } from '../../exchange.ts'
import { protect } from './headers.ts'

/** By their names under `/account/`: a package, and a file in it. */
const ofPackages: Readonly<Record<string, readonly [name: string, file: string]>> = {
  'packages/uplot.js': ['uplot', 'dist/uPlot.esm.js'],
  'packages/uplot.css': ['uplot', 'dist/uPlot.min.css'],
  'packages/marked.js': ['marked', 'lib/marked.esm.js'],
  'packages/dompurify.js': ['dompurify', 'dist/purify.es.mjs'],
  'packages/eventsource-parser/index.js': ['eventsource-parser', 'dist/index.js'],
  'packages/eventsource-parser/parse.js': ['eventsource-parser', 'dist/parse.js'],
  'packages/eventsource-parser/errors.js': ['eventsource-parser', 'dist/errors.js'],
}

/** In the folder for those who change the page. */
const unserved: ReadonlySet<string> = new Set(['tsconfig.json', 'shapes.js'])

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

interface Asset {
  readonly type: string
  readonly plain: Encoded
  readonly gzip: Encoded
}

interface Encoded {
  readonly body: Buffer
  readonly etag: string
}

/** Throws when a file is missing, or has a type that no browser is told. */
export function assetRoutes(): readonly Route[] {
  const assets = readAssets()
  const get = (path: string, nameOf: (x: Exchange) => string): Route => ({
    method: 'GET',
    path,
    access: 'anybody',
    body: 'none',
    begin(x) {
      return {
        check: () => protect(x),
        ...answering(async () => answer(x, assets.get(nameOf(x))))(x),
      }
    },
  })
  return [get('/account', () => 'index.html'), get('/account/*', ({ params }) => params['*'] ?? '')]
}

const folder = join(import.meta.dirname, 'page')

function readAssets(): ReadonlyMap<string, Asset> {
  const own = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !unserved.has(entry.name))
    .map(({ parentPath, name }) => join(parentPath, name))
    .map((path) => [path.slice(folder.length + 1).replaceAll('\\', '/'), path] as const)
  const others = Object.entries(ofPackages).map(
    ([name, [from, file]]) => [name, join(packageFolder(from), file)] as const,
  )
  return new Map([...own, ...others].map(([name, path]) => [name, readAsset(path)]))
}

function packageFolder(name: string): string {
  const found = findPackageJSON(name, import.meta.url)
  if (found === undefined) throw new Error(`the package ${name} is not installed`)
  return dirname(found)
}

function readAsset(path: string): Asset {
  const type = types[extname(path)]
  if (type === undefined) throw new Error(`${path}: no type is known for such a file`)
  const body = readFileSync(path)
  const etag = hash('sha256', body, 'base64url').slice(0, 22)
  const gzip = gzipSync(body, { level: 9 })
  return {
    type,
    plain: { body, etag: `"${etag}"` },
    gzip: { body: gzip, etag: `"${etag}-gzip"` },
  }
}

function answer({ headers }: Exchange, asset: Asset | undefined): Answer {
  if (!asset) throw new GatewayError('route_not_found')
  const isZipped = /(^|[ ,])gzip *($|,|; *q=(1|0\.[1-9]))/.test(
    String(headers['accept-encoding'] ?? ''),
  )
  const { body, etag } = isZipped ? asset.gzip : asset.plain
  const common = {
    'Content-Type': asset.type,
    // Asked each time, answered 304: a new version of the gateway is seen at once, with all its files.
    'Cache-Control': 'no-cache',
    ETag: etag,
    Vary: 'Accept-Encoding',
  }
  const known = String(headers['if-none-match'] ?? '').split(/, */)
  if (known.includes(etag) || known.includes('*')) return { status: 304, headers: common, body: '' }
  return {
    status: 200,
    headers: { ...common, ...(isZipped && { 'Content-Encoding': 'gzip' }) },
    body,
  }
}
