// Takes a target's secrets out of what its backend said before a client sees it: key, header values, address, as they are
// and as JSON or base64 would write them. Works on bytes, so the rest of an error body stays what it was. For the log and
// the operator, also words that may quote a part of a key.

import type { Target } from '../config/config.ts'

const mark = '***'
/** Shorter header values ("1", "eu") are no secrets, and would turn half of a message into stars. */
const leastChars = 4

const leastQueryChars = 12
const forms = new WeakMap<Target, readonly string[]>()

/** `text` is latin1 where it is a string, as everywhere on the token path. */
export function mask(text: string, target: Target): string
export function mask(text: Buffer, target: Target): Buffer
export function mask(text: string | Buffer, target: Target): string | Buffer {
  if (typeof text !== 'string') {
    const before = text.toString('latin1')
    const after = mask(before, target)
    return after === before ? text : Buffer.from(after, 'latin1')
  }
  let masked = text
  for (const secret of secretForms(target)) {
    if (masked.includes(secret)) masked = masked.replaceAll(secret, mark)
  }
  return masked
}

/** Shorter secrets are not looked for in parts: their parts would match common words. */
const shortestParted = 16
/** Providers quote about as many from the beginning and the end of a key. */
const partChars = 4

/** A word in which a provider has hidden something itself, as in `sk-***abcd`, `sk-…abcd` and `...abcd`. */
const hidden = /\*\*|••|(?:…|\.{3})[\w-]/u

/** Takes out each word that may quote a part of a secret: providers do so with a key that they refuse. `text` is decoded, and `mask` has seen it. */
export function maskParts(text: string, target: Target): string {
  const parts = secretsOfTarget(target)
    .flatMap((secret) => secret.split(/\s+/))
    .filter(({ length }) => length >= shortestParted)
    .flatMap((secret) => [secret.slice(0, partChars), secret.slice(-partChars)])
  const isQuoting = (word: string) => hidden.test(word) || parts.some((part) => word.includes(part))
  return text.replace(/\S+/g, (word) => (isQuoting(word) ? mark : word))
}

/** Longest first: a key inside a header value must not leave the value's other half standing. */
function secretForms(target: Target): readonly string[] {
  const known = forms.get(target)
  if (known) return known
  const secrets = [...secretsOfTarget(target), ...addressOf(target.url)].filter(
    (secret) => secret.length >= leastChars,
  )
  const all = new Set(secrets.flatMap(writtenAs).filter((form) => form.length >= leastChars))
  const sorted = [...all].sort((a, b) => b.length - a.length)
  forms.set(target, sorted)
  return sorted
}

/** What nobody may see, not even an operator: the target's key, wherever it stands. */
export function secretsOfTarget({ key, headers, url }: Target): string[] {
  return [...(key ? [key] : []), ...Object.values(headers), ...keysIn(url)]
}

function keysIn(url: string): string[] {
  if (!URL.canParse(url)) return []
  const { password, searchParams } = new URL(url)
  // The query may hold a key. It may hold an API version, too, but that is shorter.
  const inQuery = [...searchParams.values()].filter((value) => value.length >= leastQueryChars)
  return [password, ...inQuery]
}

/** Clients must not see the target's address either. */
function addressOf(url: string): string[] {
  if (!URL.canParse(url)) return []
  const { href, origin, host, hostname, username } = new URL(url)
  return [url, href, origin, host, hostname, username]
}

function writtenAs(secret: string): string[] {
  const utf8 = Buffer.from(secret)
  const inJson = JSON.stringify(secret).slice(1, -1)
  return [
    utf8.toString('latin1'),
    Buffer.from(inJson).toString('latin1'),
    Buffer.from(inJson.replaceAll('/', '\\/')).toString('latin1'),
    encodeURIComponent(secret.toWellFormed()),
    utf8.toString('base64').replace(/=+$/, ''),
    utf8.toString('base64url'),
  ]
}
