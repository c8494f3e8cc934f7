// Files that are the same for everybody, found by their exact names: no path of a request is ever a path of a disk. Each
// is read and compressed when somebody asks first, then kept, with a tag by which a client asks again.

import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { findPackageJSON } from 'node:module'
import { dirname, extname, join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { GatewayError } from '../errors.ts'
import type { Answer, Exchange } from '../exchange.ts'

export interface Asset {
  readonly type: string
  /** With its quotes. It is sent as a weak one: both forms of the content have it. */
  readonly tag: string
  readonly plain: Buffer
  readonly zipped: Buffer
}

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.mjs': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/**
 * `paths`: where each file is, by its name in the URL. Throws when one has a type that no browser is told. The answer of
 * another name is `route_not_found`; a file that can't be read is tried again with the next request.
 */
export function createAssets(paths: ReadonlyMap<string, string>) {
  const kept = new Map<string, Promise<Asset>>()
  const files = new Map([...paths].map(([name, path]) => [name, { path, type: typeOf(path) }]))
  return async (x: Pick<Exchange, 'headers'>, name: string): Promise<Answer> => {
    const file = files.get(name)
    if (!file) throw new GatewayError('route_not_found')
    const reading = kept.get(name) ?? readFile(file.path).then((text) => assetOf(text, file.type))
    kept.set(name, reading)
    reading.catch(() => kept.delete(name))
    return assetAnswer(x, await reading)
  }
}

/** The path of a file that a package has. Throws when the package is not installed. */
export function packageFile(name: string, file: string): string {
  const found = findPackageJSON(name, import.meta.url)
  if (found === undefined) throw new Error(`the package ${name} is not installed`)
  return join(dirname(found), file)
}

function typeOf(path: string): string {
  const type = types[extname(path)]
  if (type === undefined) throw new Error(`${path}: no type is known for such a file`)
  return type
}

const zip = promisify(gzip)

export async function assetOf(plain: Buffer, type: string): Promise<Asset> {
  const tag = `"${hash('sha256', plain).slice(0, 32)}"`
  return { type, tag, plain, zipped: await zip(plain, { level: 9 }) }
}

export function assetAnswer({ headers }: Pick<Exchange, 'headers'>, asset: Asset): Answer {
  const { type, tag, plain, zipped } = asset
  // Asked each time, answered 304: a new version of the gateway is seen at once, with all its files.
  const about = { ETag: `W/${tag}`, 'Cache-Control': 'no-cache', Vary: 'Accept-Encoding' }
  if (isKnown(headers['if-none-match'], tag)) return { status: 304, headers: about, body: '' }
  const isZipped = takesGzip(headers['accept-encoding'])
  return {
    status: 200,
    headers: { ...about, 'Content-Type': type, ...(isZipped && { 'Content-Encoding': 'gzip' }) },
    body: isZipped ? zipped : plain,
  }
}

function isKnown(header: string | undefined, tag: string): boolean {
  const tags = header?.split(',').map((one) => one.trim().replace(/^W\//, '')) ?? []
  return tags.some((one) => one === tag || one === '*')
}

/** `q=0` means: not this one. */
function takesGzip(header: string | readonly string[] | undefined): boolean {
  const codings = String(header ?? '').split(',')
  return codings.some((one) => /^\s*gzip\s*(;\s*q=(?!0(\.0*)?\s*$).*)?$/i.test(one))
}
