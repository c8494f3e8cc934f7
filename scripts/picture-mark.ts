// The first line of a picture that is drawn from a text: it tells from which one.

import { createHash } from 'node:crypto'

export function markOf(text: string): string {
  const digest = createHash('sha256').update(text).digest('hex')
  return `<!-- Drawn by \`npm run pictures\` from a text whose SHA-256 is ${digest} -->`
}
