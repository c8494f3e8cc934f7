// Makes the name of a stored file from the name that the client wrote: one path part, in NFC, which is not hidden, and
// can't lead out of a folder, break a header line or reverse its own letters. When nothing is left, the name is `file`.

const maxBytes = 255
/** A longer ending is no extension, and may be cut. */
const maxExtensionBytes = 32

// Controls, the marks that change the direction of text, separators of lines, and the byte order mark.
const unseen = /[\p{Cc}\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]/gu

export function cleanFileName(written: string | undefined): string {
  const plain = unescapeQuotes((written ?? '').toWellFormed())
    .replace(unseen, '')
    .normalize('NFC')
  const base = plain.slice(Math.max(plain.lastIndexOf('/'), plain.lastIndexOf('\\')) + 1)
  const shown = base.replace(/^[\s.]+/u, '').trimEnd()
  return fit(shown) || 'file'
}

/** Browsers write these three, and only these, so (WHATWG HTML, multipart/form-data). */
function unescapeQuotes(name: string): string {
  return name.replace(/%(?:22|0d|0a)/gi, (escape) => (escape === '%22' ? '"' : ''))
}

/** Cuts the stem, so that the extension stays. */
function fit(name: string): string {
  if (Buffer.byteLength(name) <= maxBytes) return name
  const dot = name.lastIndexOf('.')
  const extension = dot > 0 ? name.slice(dot) : ''
  const extensionBytes = Buffer.byteLength(extension)
  if (extensionBytes > maxExtensionBytes) return cutTo(name, maxBytes)
  return cutTo(name.slice(0, dot < 0 ? undefined : dot), maxBytes - extensionBytes) + extension
}

/** Cuts between code points. */
function cutTo(text: string, bytes: number): string {
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(bytes))
  return text.slice(0, read).trimEnd()
}
