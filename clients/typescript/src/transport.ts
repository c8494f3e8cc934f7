// One logical call: its address, its headers, its attempts. Promises that the key goes to the base URL's origin alone
// and that each attempt carries the same bytes and the same idempotency key. Knows no resources.

import { Attempt } from './attempt.ts'
import type { Send } from './attempt.ts'
import { clock } from './clock.ts'
import {
  APIError,
  ConnectionError,
  TollgateError,
  errorOfAnswer,
  errorOfRedirect,
} from './errors.ts'
import { jsonOf, textOf } from './body.ts'
import { retryAfterOf, waitAfter } from './retry.ts'
import { isBrowser } from './runtime.ts'
import type { Form } from './upload.ts'
import { version } from './version.ts'

/** The options of one call. By default those of the client. */
export interface CallOptions {
  /** Ends the call at any point: it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
  /** Headers that are sent in addition. */
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** Two calls with the same key are one. By default a random one. */
  readonly idempotencyKey?: string | undefined
  /** Attempts after the first. */
  readonly maxRetries?: number | undefined
  /** ms to connect. Node only, at most 10 s: elsewhere the runtime's own, within `idleTimeout`. */
  readonly connectTimeout?: number | undefined
  /** The longest time in ms without a byte. */
  readonly idleTimeout?: number | undefined
  /** ms until the head of an answer that is generated and not streamed. */
  readonly answerTimeout?: number | undefined
}

export interface Settings {
  readonly apiKey: string
  /** Without `/v1` and without a slash at its end. */
  readonly base: string
  readonly send: Send | undefined
  readonly headers: Readonly<Record<string, string>>
  readonly maxRetries: number
  readonly connectTimeout: number
  readonly idleTimeout: number
  readonly answerTimeout: number
}

export interface Call {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Made by `pathTo`. */
  readonly path: string
  readonly query?: object | undefined
  readonly json?: object | undefined
  readonly form?: Form | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly isStream?: boolean
  /** The backend generates the answer: without a stream it takes long, and after a 504 it is not requested again. */
  readonly isGenerated?: boolean
  /** The route takes no idempotency key: the request is sent again only when it surely reached no server. */
  readonly isPaid?: boolean
  /** Whether to follow a redirect to another origin, without the key. */
  readonly followsRedirects?: boolean
}

const maxHops = 5

export class Transport {
  readonly #settings: Settings

  constructor(settings: Settings) {
    this.#settings = settings
  }

  /** The JSON of the answer. */
  async json<T>(call: Call, options: CallOptions = {}): Promise<T> {
    return (await jsonOf(await this.open(call, options))) as T
  }

  /** For answers without a body. */
  async done(call: Call, options: CallOptions = {}): Promise<void> {
    const attempt = await this.open(call, options)
    attempt.finish()
  }

  /** Resolves with an answer that is not an error; the caller reads its body. */
  async open(call: Call, options: CallOptions = {}): Promise<Attempt> {
    const url = this.#urlOf(call)
    const headers = this.#headersOf(call, options)
    const body = call.json && JSON.stringify(call.json)
    const retries = options.maxRetries ?? this.#settings.maxRetries
    for (let failed = 0; ; failed++) {
      try {
        return await this.#follow({ call, options, url, headers, body })
      } catch (error) {
        if (failed >= retries || !isWorthAnother(error, call)) throw error
        await clock.sleep(waitAfter(error, failed), options.signal)
      }
    }
  }

  #urlOf({ path, query = {} }: Call): string {
    const words = Object.entries(query).filter(([, value]) => value !== undefined && value !== null)
    const search = new URLSearchParams(words.map(([name, value]) => [name, String(value)]))
    return `${this.#settings.base}${path}${search.size > 0 ? `?${search}` : ''}`
  }

  #headersOf(call: Call, options: CallOptions): Headers {
    const { apiKey, headers: always } = this.#settings
    const headers = new Headers({
      authorization: `Bearer ${apiKey}`,
      accept: call.isStream ? 'text/event-stream' : 'application/json',
    })
    // Browsers that allow this header send a preflight for it first.
    if (!isBrowser()) headers.set('user-agent', `tollgate-gateway-typescript/${version}`)
    if (call.json) headers.set('content-type', 'application/json')
    if (call.json && call.method === 'POST') {
      headers.set('idempotency-key', ensureKey(options.idempotencyKey ?? randomKey()))
    }
    for (const more of [always, options.headers, call.headers]) {
      for (const [name, value] of Object.entries(more ?? {})) setHeader(headers, name, value)
    }
    return headers
  }

  async #follow(request: Request): Promise<Attempt> {
    let attempt = await this.#send(request, 'manual')
    if (!request.call.followsRedirects) return await this.#accepted(attempt, request)
    // A browser does not show the target of a redirect; when it follows by itself, it does not send the key there.
    if (attempt.response.type === 'opaqueredirect') {
      attempt.close()
      attempt = await this.#send(request, 'follow')
    }
    let { url } = request
    for (let hops = 0; hops < maxHops; hops++) {
      const next = redirectOf(attempt.response, url)
      if (next === undefined) break
      attempt.close()
      url = next
      const headers = this.#headersFor(url, request)
      attempt = await this.#send({ ...request, url, headers }, 'manual')
    }
    return await this.#accepted(attempt, request)
  }

  async #accepted(attempt: Attempt, { call }: Request): Promise<Attempt> {
    const { status, headers, type } = attempt.response
    if (type === 'opaqueredirect') {
      attempt.close()
      throw errorOfRedirect()
    }
    if (status >= 200 && status < 300) return attempt
    const text = (await textOf(attempt)).replaceAll(this.#settings.apiKey, '***')
    const { isGenerated = false } = call
    throw errorOfAnswer({ status, text, headers, retryAfter: retryAfterOf(headers), isGenerated })
  }

  /** The headers for this address: another origin does not get the key. */
  #headersFor(url: string, { call, headers }: Request): Headers {
    if (new URL(url).origin === new URL(this.#settings.base).origin) return headers
    return new Headers({ ...call.headers, accept: '*/*' })
  }

  #send(
    { call, options, url, headers, body }: Request,
    redirect: RequestRedirect,
  ): Promise<Attempt> {
    const { send, connectTimeout, idleTimeout, answerTimeout } = this.#settings
    const idleMs = options.idleTimeout ?? idleTimeout
    const sending = {
      url,
      send: call.form?.sendWith(send) ?? send,
      connectMs: options.connectTimeout ?? connectTimeout,
      headMs:
        call.isGenerated && !call.isStream ? (options.answerTimeout ?? answerTimeout) : idleMs,
      idleMs,
      signal: options.signal,
    }
    return Attempt.start(sending, (attempt) => ({
      method: call.method,
      headers,
      redirect,
      ...(body !== undefined && { body }),
      ...call.form?.open(headers, () => attempt.touch()),
    }))
  }
}

interface Request {
  readonly call: Call
  readonly options: CallOptions
  readonly url: string
  readonly headers: Headers
  readonly body: string | undefined
}

/** Joins segments to a path; each stays one segment, whatever it contains. */
export function pathTo(...segments: readonly string[]): string {
  return segments.map((segment) => `/${segmentOf(segment)}`).join('')
}

function segmentOf(text: string): string {
  // Dots in a path are resolved on the way, also by proxies, however they are encoded.
  if (typeof text !== 'string' || /^\.{0,2}$/.test(text)) {
    throw new TollgateError(`"${text}" is no id.`)
  }
  try {
    return encodeURIComponent(text)
  } catch (cause) {
    throw new TollgateError('An id is not valid Unicode.', { cause })
  }
}

/** The address of the request. Some runtimes' fetch can also read local files, which no server may ask for. */
function redirectOf({ status, headers }: Response, base: string): string | undefined {
  const location = headers.get('location') ?? ''
  if (![301, 302, 303, 307, 308].includes(status) || !URL.canParse(location, base)) return undefined
  const { href, protocol } = new URL(location, base)
  return protocol === 'http:' || protocol === 'https:' ? href : undefined
}

/** The runtime's own error would contain the value. */
function setHeader(headers: Headers, name: string, value: string): void {
  try {
    headers.set(name, value)
  } catch {
    throw new TollgateError(`The header ${name} can’t have this value.`)
  }
}

/** A key that is changed on the way would be another key. */
function ensureKey(key: string): string {
  if (/^[!-~]+$/.test(key)) return key
  throw new TollgateError('An idempotency key is of visible ASCII characters.')
}

function isWorthAnother(error: unknown, { form, isPaid }: Call): boolean {
  if (form?.isOnce || form?.failure) return false
  if (error instanceof APIError) return error.isRetriable
  return error instanceof ConnectionError && !(isPaid && error.isReached)
}

/** `crypto.randomUUID` does not exist on pages of plain HTTP. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
