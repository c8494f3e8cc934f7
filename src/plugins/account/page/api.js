// Calls of the API: with the page's cookie under /account/api, with a key under /api. Every failure is an ApiError, which
// problems.js puts into words.

/** @typedef {import('./shapes.js').List<unknown>} AnyList */

/** Longer than any answer of these routes takes; a stream has none. */
const timeoutMs = 30_000

export class ApiError extends Error {
  /**
   * @param {string} code of docs/errors.md, or `network` when there was no answer
   * @param {{ message?: string, status?: number, retryAfter?: number, requestId?: string, details?: Record<string, unknown> }} [more]
   */
  constructor(code, { message = code, status = 0, retryAfter, requestId, details = {} } = {}) {
    super(message)
    this.name = 'ApiError'
    this.code = code
    this.status = status
    /** Seconds. */
    this.retryAfter = retryAfter
    this.requestId = requestId
    this.details = details
    /** True when the page's own session is over, false when only a key of the playground is. */
    this.isSessionOver = false
  }
}

/**
 * @typedef {object} Call
 * @property {string} [method]
 * @property {unknown} [body] sent as JSON, unless it is a form
 * @property {AbortSignal} [signal]
 * @property {Record<string, string>} [headers]
 * @property {boolean} [isStream] has no time-out
 */

/**
 * Resolves with a good answer.
 * @param {string} path
 * @param {Call} [call]
 * @returns {Promise<Response>}
 */
export async function request(path, { method, body, signal, headers = {}, isStream } = {}) {
  const isForm = body instanceof FormData
  const limits = isStream || isForm ? [] : [AbortSignal.timeout(timeoutMs)]
  /** @type {Response} */
  let answer
  try {
    answer = await fetch(path, {
      method: method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        ...(body !== undefined && !isForm && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: isForm ? body : JSON.stringify(body) }),
      signal: AbortSignal.any([...(signal ? [signal] : []), ...limits]),
    })
  } catch (cause) {
    if (signal?.aborted) throw cause
    throw new ApiError('network')
  }
  if (!answer.ok) throw await refusalOf(answer)
  return answer
}

/**
 * @param {Response} answer
 * @returns {Promise<ApiError>}
 */
async function refusalOf(answer) {
  const body = await answer.json().catch(() => ({}))
  const { code, message, ...details } = body.error ?? {}
  const retryAfter = Number(answer.headers.get('retry-after')) || undefined
  return new ApiError(code ?? `status_${answer.status}`, {
    message,
    status: answer.status,
    ...(retryAfter && { retryAfter }),
    requestId: body.request_id ?? answer.headers.get('x-request-id') ?? undefined,
    details,
  })
}

/**
 * The page's own API.
 * @template T
 * @param {string} path below /account/api/
 * @param {Call} [call]
 * @returns {Promise<T>}
 */
export async function account(path, call = {}) {
  const isChange = (call.method ?? 'GET') !== 'GET' || call.body !== undefined
  // The API takes no change without a type and a body, so that no form of another site can make one.
  const body = isChange ? (call.body ?? {}) : undefined
  try {
    const answer = await request(`/account/api/${path}`, { ...call, body })
    return answer.status === 204 ? /** @type {T} */ (undefined) : await answer.json()
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) error.isSessionOver = true
    throw error
  }
}

/**
 * @param {string} path
 * @param {Record<string, string | number | undefined | null>} query those without a value are left out
 */
export function withQuery(path, query) {
  const given = Object.entries(query).filter(
    ([, value]) => value !== undefined && value !== null && value !== '',
  )
  const words = new URLSearchParams(given.map(([name, value]) => [name, String(value)]))
  return given.length > 0 ? `${path}?${words}` : path
}

/**
 * All rows of a list, over as many pages as it takes, up to `most`.
 * @template T
 * @param {string} path
 * @param {{ signal?: AbortSignal, most?: number }} [options]
 * @returns {Promise<T[]>}
 */
export async function allOf(path, { signal, most = 1000 } = {}) {
  /** @type {T[]} */
  const rows = []
  for (let after = ''; rows.length < most;) {
    /** @type {import('./shapes.js').List<T>} */
    const page = await account(withQuery(path, { limit: 100, after }), signal ? { signal } : {})
    rows.push(...page.data)
    if (!page.has_more || !page.last_id) break
    after = page.last_id
  }
  return rows
}
