// The cookie of the account page: read from a request, written for an answer. Over TLS its name begins with `__Host-`, so
// that a browser takes it only from this host itself, and no neighbour on another subdomain can plant one.

const maxAgeS = 7 * 24 * 3600

/** The value of the cookie; undefined when there is none, or several: then somebody else has planted one. */
export function readCookie(header: string | undefined, name: string): string | undefined {
  const values = (header ?? '').split(';').flatMap((pair) => {
    const at = pair.indexOf('=')
    return at > 0 && pair.slice(0, at).trim() === name ? [pair.slice(at + 1).trim()] : []
  })
  return values.length === 1 ? values[0] : undefined
}

export interface CookieOptions {
  readonly isSecure: boolean
  /** By default as long as a log-in may last; 0 removes the cookie. */
  readonly seconds?: number
}

/** `base` is the name without a prefix. */
export function cookieName(base: string, isSecure: boolean): string {
  return isSecure ? `__Host-${base}` : base
}

/** The value of a Set-Cookie header. No script can read the cookie, and no other site can send it with a call. */
export function setCookie(
  base: string,
  value: string,
  { isSecure, seconds = maxAgeS }: CookieOptions,
): string {
  const secure = isSecure ? '; Secure' : ''
  const name = cookieName(base, isSecure)
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`
}
