// Tells a file's type by its bytes only. All text is text/plain, and a type that a browser would run in our origin
// never comes out: HTML, SVG, XML, scripts and Flash become text or unknown bytes.

import { GatewayError } from '../../errors.ts'
import { scanText } from './text-scan.ts'

export const textType = 'text/plain; charset=utf-8'
export const unknownType = 'application/octet-stream'

/** Bytes of a file that the package file-type wants to see. */
const sampleBytes = 4100

export interface Sniffer {
  take(piece: Buffer): void
  /** True when enough was seen to tell the type of a file that is not text. */
  readonly isReady: boolean
  /** To be called when `isReady`. Throws `unsupported_media_type` when the file can no longer be of an allowed type. */
  refuseEarly(): Promise<void>
  /** To be called after the last piece. Returns the type. Throws `unsupported_media_type`. */
  end(): Promise<string>
}

/** `allow`: `*\/*`, `image/*`, `application/pdf`. */
export function sniffContent(allow: readonly string[]): Sniffer {
  const text = scanText()
  const sample = Buffer.alloc(sampleBytes)
  let sampled = 0
  let known: Promise<string> | undefined
  const binaryType = () => (known ??= detect(sample.subarray(0, sampled)))
  return {
    get isReady() {
      return sampled === sampleBytes
    },
    take(piece) {
      text.take(piece)
      if (sampled < sampleBytes) sampled += piece.copy(sample, sampled)
    },
    async refuseEarly() {
      if (allow.includes('*/*') || (text.mayBeText && isAllowed(textType, allow))) return
      const type = await binaryType()
      if (!isAllowed(type, allow)) throw refusal(text.mayBeText ? textType : type, allow)
    },
    async end() {
      const type = text.isText() ? textType : await binaryType()
      if (!isAllowed(type, allow)) throw refusal(type, allow)
      return type
    },
  }
}

function refusal(type: string, allow: readonly string[]): GatewayError {
  const [name] = type.split(';')
  return new GatewayError('unsupported_media_type', {
    message: `By its content this file is ${name}, which is not accepted. Accepted: ${allow.join(', ')}.`,
    param: 'file',
  })
}

function isAllowed(type: string, allow: readonly string[]): boolean {
  const [name = ''] = type.split(';')
  const [kind = ''] = name.split('/')
  return allow.includes('*/*') || allow.includes(`${kind}/*`) || allow.includes(name)
}

async function detect(sample: Buffer): Promise<string> {
  const { fileTypeFromBuffer } = await import('file-type')
  // The package reads headers that anybody can write: when it throws, the type is unknown.
  const found = await fileTypeFromBuffer(sample).catch(() => undefined)
  return inertType(found?.mime ?? unknownType)
}

const binaryKind = /^(application|audio|font|image|model|video)\/[a-z0-9.+-]+$/
const active = /html|xml$|script$|shockwave|mhtml/

/** Exported for its test, which tries types that file-type does not find yet. */
export function inertType(found: string): string {
  const [name = ''] = found.toLowerCase().split(';')
  return binaryKind.test(name) && !active.test(name) ? name : unknownType
}
