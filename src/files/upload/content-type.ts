// What a file is, by its bytes and nothing else. Text is text/plain whatever it looks like, and no type that a browser
// would run in our origin ever comes out: HTML, SVG, XML, scripts and Flash are text or unknown bytes.

import { GatewayError } from '../../errors.ts'
import { scanText } from './text-scan.ts'

export const textType = 'text/plain; charset=utf-8'
export const unknownType = 'application/octet-stream'

/** What file-type wants to see of a file. */
const sampleBytes = 4100

export interface Sniffer {
  take(piece: Buffer): void
  /** Enough was seen to say what the file is if it is not text. */
  readonly isReady: boolean
  /** Throws `unsupported_media_type` if it can be nothing that is allowed any more. When `isReady`. */
  refuseEarly(): Promise<void>
  /** After the last piece. Throws `unsupported_media_type`. */
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
  // It reads headers that anybody can write; what it cannot cope with is unknown.
  const found = await fileTypeFromBuffer(sample).catch(() => undefined)
  return inertType(found?.mime ?? unknownType)
}

const binaryKind = /^(application|audio|font|image|model|video)\/[a-z0-9.+-]+$/
const active = /html|xml$|script$|shockwave|mhtml/

/** Exported for its test: what file-type may find one day. */
export function inertType(found: string): string {
  const [name = ''] = found.toLowerCase().split(';')
  return binaryKind.test(name) && !active.test(name) ? name : unknownType
}
