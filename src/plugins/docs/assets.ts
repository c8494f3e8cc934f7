// Files that are the same for everybody: read and compressed when somebody asks first, then kept, with a tag by which a
// client asks again.

import { hash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Answer, Exchange } from '../../exchange.ts'

export interface PageFile {
  readonly type: string
  /** With its quotes. It is sent as a weak one: both forms of the content have it. */
  readonly tag: string
  readonly plain: Buffer
  readonly zipped: Buffer
}

interface AssetFile {
  readonly url: URL
  readonly type: string
}

const own = (name: string, type: string): AssetFile => ({
  url: new URL(name, import.meta.url),
  type,
})
const ofViewer = (name: string, type: string): AssetFile => ({
  url: new URL(import.meta.resolve(`swagger-ui-dist/${name}`)),
  type,
})

const script = 'text/javascript; charset=utf-8'

/** By the name in their URL: all that can be read. */
export const files: ReadonlyMap<string, AssetFile> = new Map([
  ['page.html', own('page.html', 'text/html; charset=utf-8')],
  ['page.js', own('page.js', script)],
  ['swagger-ui-bundle.js', ofViewer('swagger-ui-bundle.js', script)],
  ['swagger-ui.css', ofViewer('swagger-ui.css', 'text/css; charset=utf-8')],
])

const kept = new Map<string, Promise<PageFile>>()

/** `name` is one of `files`. A file that can't be read is tried again with the next request. */
export function readAsset(name: string): Promise<PageFile> {
  const reading = kept.get(name) ?? read(name)
  kept.set(name, reading)
  reading.catch(() => kept.delete(name))
  return reading
}

async function read(name: string): Promise<PageFile> {
  const file = files.get(name)
  if (!file) throw new TypeError(`there is no file ${name}`)
  return await assetOf(await readFile(file.url), file.type)
}

const zip = promisify(gzip)

export async function assetOf(plain: Buffer, type: string): Promise<PageFile> {
  const tag = `"${hash('sha256', plain).slice(0, 32)}"`
  return { type, tag, plain, zipped: await zip(plain, { level: 9 }) }
}

export function assetAnswer({ headers }: Pick<Exchange, 'headers'>, asset: PageFile): Answer {
  const { type, tag, plain, zipped } = asset
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
