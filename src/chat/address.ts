// Which addresses a backend may be sent: data URLs, and https from hosts that the operator has listed. A text that two
// parsers might read differently (user names, odd case, spaces, numbers in another base) does not count as an address.

/** Longer ones are refused: no host needs them. */
const longestAddress = 8192
/** From `data:` to its comma. */
const longestHead = 256

const dataHead = /^data:[A-Za-z0-9!#$&^_.+/-]*(?:;[A-Za-z0-9_.+="-]+)*,/
const https =
  /^https:\/\/([a-z0-9-]+(?:\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(:[0-9]{1,5})?(?:[/?#][\x21-\x5b\x5d-\x7e]*)?$/

/** An SVG can name addresses of its own, and a renderer would fetch them. */
const drawing = /^data:image\/svg/i

export function isDataUrl(text: string): boolean {
  if (!text.startsWith('data:')) return false
  const head = text.slice(0, longestHead)
  return dataHead.test(head) && !drawing.test(head)
}

/** MP3 in base64 begins with a slash or two; a text of fewer than 60 characters that begins so does not count as base64. */
const base64 = /^(?:[A-Za-z0-9+_-][A-Za-z0-9+/_=-]*|[A-Za-z0-9+/_=-]{60,})$/
const looked = 2048

/** Whether a text is bytes in base64. An address has a colon or a point near its beginning, or is a short path. */
export function isBase64(text: string): boolean {
  return base64.test(text.slice(0, looked))
}

/** Host, and port where it is not 443, of a sound https address; undefined for anything else. */
export function hostOf(text: string): string | undefined {
  if (text.length > longestAddress) return undefined
  const match = https.exec(text)
  if (!match || !URL.canParse(text)) return undefined
  const { protocol, host, username, password } = new URL(text)
  const written = `${match[1]}${match[2] === ':443' ? '' : (match[2] ?? '')}`
  const isSame = protocol === 'https:' && host === written && username === '' && password === ''
  return isSame ? host : undefined
}

/** `listed` are hosts, with a port where it is not 443. `*.` before a host lists all hosts below it. */
export function isListed(host: string, listed: readonly string[]): boolean {
  return listed.some((one) => {
    if (one === host) return true
    return one.startsWith('*.') && host.endsWith(one.slice(1)) && host.length > one.length - 1
  })
}
