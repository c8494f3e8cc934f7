// Tells an image's type by its first bytes, for the four types that models take and that are served inline. The type
// that a client claims does not count: a browser would open other content as that type.

/** Bytes that suffice to tell the type. */
export const imageHeadBytes = 12

export function imageTypeOf(head: Buffer): string | undefined {
  const text = head.toString('latin1', 0, imageHeadBytes)
  if (text.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (text.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (/^GIF8[79]a/.test(text)) return 'image/gif'
  return text.startsWith('RIFF') && text.endsWith('WEBP') ? 'image/webp' : undefined
}
