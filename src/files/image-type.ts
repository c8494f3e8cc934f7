// What an image is by its first bytes. Only the four types that models take, and that are served inline: whatever claims to
// be one and is something else would be opened by a browser as what it claims.

/** So much is enough. */
export const imageHeadBytes = 12

export function imageTypeOf(head: Buffer): string | undefined {
  const text = head.toString('latin1', 0, imageHeadBytes)
  if (text.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (text.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (/^GIF8[79]a/.test(text)) return 'image/gif'
  return text.startsWith('RIFF') && text.endsWith('WEBP') ? 'image/webp' : undefined
}
