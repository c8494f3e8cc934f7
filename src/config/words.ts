// Schemas of small values in gateway.yaml: ports, addresses, header names, model ids, backend and Redis URLs. Each has
// the sentence that says what would be right.

import { isIP } from 'node:net'
import { http } from '../node-http.ts'
import { parseHostPort } from './host-port.ts'
import { didYouMean } from './problem.ts'
import { kinds, z } from './schema.ts'

const portHelp = 'write a port number from 0 to 65535'

export const port = () =>
  z.int({ error: portHelp }).min(0, { error: portHelp }).max(65_535, { error: portHelp })

export const host = () =>
  z.string().regex(/^[^\s/[\]@]+$/, { error: 'write a host name or an address without brackets' })

export const hostPort = () =>
  z.string().refine((text) => parseHostPort(text) !== undefined, {
    error: 'write host:port, such as 127.0.0.1:9090 or [::1]:9090',
  })

export const cidr = () =>
  z.string().refine(isCidr, { error: 'write an address range, such as 10.0.0.0/8 or fd00::/8' })

function isCidr(text: string): boolean {
  const [address = '', bits, rest] = text.split('/')
  const version = isIP(address)
  if (version === 0 || rest !== undefined) return false
  return (
    bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (version === 4 ? 32 : 128))
  )
}

/** An IANA name. A fixed offset is none, because it has no summer time. */
export const timeZone = () =>
  z.string({ error: timeZoneHelp }).superRefine((name, ctx) => {
    const isKnown =
      /^[A-Za-z]/.test(name) && succeeds(() => new Intl.DateTimeFormat('en', { timeZone: name }))
    if (isKnown) return
    const meant = didYouMean(name, ['UTC', ...Intl.supportedValuesOf('timeZone')])
    ctx.addIssue({
      code: 'custom',
      message: `there is no such time zone${meant || `; ${timeZoneHelp}`}`,
      input: name,
    })
  })

const timeZoneHelp = 'write an IANA name, such as Europe/Berlin or UTC'

/** The name that clients send as `model`, or the name that a backend has for the model. */
export const modelId = () =>
  z.string().refine((text) => /^[^\p{C}\p{Z}]{1,200}$/u.test(text) && text !== '*', {
    error: 'write a model id of 1 to 200 printable characters without spaces',
  })

/** The name of a parameter in a request's body. */
export const parameterName = () =>
  z.string().regex(/^(\*|[A-Za-z_][A-Za-z0-9_.-]{0,63})$/, {
    error: 'write a parameter name, such as chat_template, or "*" for all',
  })

/** A host as in a URL; `*.` before it means all hosts below it; with a port if that is not 443. */
export const mediaHost = () =>
  z.string().refine(isMediaHost, {
    error: 'write a host in small letters, such as images.example.com, *.example.com or host:8443',
  })

function isMediaHost(text: string): boolean {
  const host = text.startsWith('*.') ? text.slice(2) : text
  const isPlain = /^[a-z0-9.-]+(:\d+)?$/.test(host) || (host === text && host.startsWith('['))
  return isPlain && URL.parse(`https://${host}/`)?.host === host
}

/** Headers that the gateway sets itself or that are for one connection only: they must not be configured. */
const ownHeaders =
  /^(connection|content-length|expect|host|keep-alive|proxy-authenticate|proxy-authorization|proxy-connection|te|trailer|transfer-encoding|upgrade)$/i

/** A client's headers that must not be forwarded: they would give away its credential, fake its address, or make the answer unreadable for the meter. */
const keptBack =
  /^(authorization|cookie2?|x-api-key|api-key|accept-encoding|forwarded|x-forwarded-.*|x-real-ip)$/i

export const headerName = () =>
  z
    .string()
    .refine((name) => succeeds(() => http.validateHeaderName(name)), {
      error: 'is not a valid header name',
    })
    .refine((name) => !ownHeaders.test(name), {
      error: 'the gateway sets this header itself; remove it',
    })

export const forwardedHeader = () =>
  headerName().refine((name) => !keptBack.test(name), {
    error: "a client's credentials, cookies and addresses are never forwarded; remove it",
  })

export const headerValue = () =>
  headerText('is not a valid header value: no line breaks or control characters')

/** A backend's credential, which goes out in a header. */
export const backendKey = () => headerText('has line breaks or control characters; a key has none')

function headerText(error: string) {
  const isValid = (text: string) => succeeds(() => http.validateHeaderValue('x', text))
  return z.string().refine(isValid, { error }).register(kinds, { kind: 'secret' })
}

function succeeds(check: () => void): boolean {
  try {
    check()
    return true
  } catch {
    return false
  }
}

export const backendUrl = () =>
  z
    .string()
    .superRefine((text, ctx) => {
      const fault = urlFault(text)
      if (fault) ctx.addIssue({ code: 'custom', message: fault, input: text })
    })
    .register(kinds, { kind: 'url' })

/** A path that can't name another host, as `//host` and `/\host` would. */
export const healthPath = () =>
  z
    .string()
    .regex(/^\/(?![/\\])[!"$-~]*$/, {
      error: 'write a path of visible ASCII characters without #, such as /health',
    })
    .register(kinds, { kind: 'url' })

function urlFault(text: string): string | undefined {
  const url = URL.parse(text)
  const help = 'write the http:// or https:// URL that ends in /v1'
  if (!url || /[\s\p{C}]/u.test(text)) return `is not a URL; ${help}`
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return `is not an HTTP URL; ${help}`
  if (url.username || url.password) return 'has a credential in it; give it as `key`'
  if (url.hash) return 'has a "#" part, which is never sent; remove it'
  return undefined
}

const redisHelp =
  'write embedded, redis://host:6379/0, rediss://host:6379/0 or unix:///path/to/redis.sock'

/** The messages never repeat the URL, because it may have the password. */
export const redisUrl = () =>
  z
    .string({ error: redisHelp })
    .refine((text) => parseRedisUrl(text) !== undefined, { error: redisHelp })
    .register(kinds, { kind: 'url' })

export interface RedisAddress {
  readonly host: string
  readonly port: number
  /** Of a unix socket, in place of host and port. */
  readonly path?: string
  readonly username?: string
  readonly password?: string
  readonly db: number
}

export function parseRedisUrl(text: string): (RedisAddress & { secure: boolean }) | undefined {
  const url = URL.parse(text)
  if (!url || url.hash || /\s/.test(text)) return undefined
  const unix = url.protocol === 'unix:'
  const secure = url.protocol === 'rediss:'
  if (!unix && !secure && url.protocol !== 'redis:') return undefined
  const db = unix ? (url.searchParams.get('db') ?? '0') : url.pathname.replace(/^\//, '') || '0'
  if (!/^\d{1,5}$/.test(db) || (unix ? url.pathname.length < 2 : !url.hostname)) return undefined
  return {
    host: unix ? 'localhost' : url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || 6379),
    ...(unix && { path: decode(url.pathname) }),
    ...(url.username && { username: decode(url.username) }),
    ...(url.password && { password: decode(url.password) }),
    db: Number(db),
    secure,
  }
}

/** A text with a `%` that is not an escape, such as a password, is taken as written. */
function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
