// What an image is by its first bytes. Only the four types that models take, and that are served inline: whatever claims to
// be one and is something else would be opened by a browser as what it claims.

const signatures: readonly (readonly [type: string, bytes: RegExp])[] = [
  ['image/png', /^\x89PNG\r\n\x1a\n/],
  ['image/jpeg', /^\xff\xd8\xff/],
  ['image/gif', /^GIF8[79]a/],
  ['image/webp', /^RIFF[^]{4}WEBP/],
]

/** So much is enough. */
export const imageHeadBytes = 12

export function imageTypeOf(head: Buffer): string | undefined {
  const text = head.toString('latin1', 0, imageHeadBytes)
  return signatures.find(([, bytes]) => bytes.test(text))?.[0]
}
