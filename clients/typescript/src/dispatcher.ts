// What Node's fetch does not offer: a notice of the connection, answers without a time limit (fetch has 300 s), and a
// body that is not kept in memory. Passes each request on to the dispatcher that is set globally, so that proxies and
// agents still work. Does nothing in other runtimes.

type Handler = Readonly<Record<string, unknown>>

interface Dispatcher {
  dispatch(options: object, handler: Handler): boolean
}

const begins = ['onRequestStart', 'onConnect']

interface Watcher {
  /** Called when a connection is needed. Never called by a fetch that does not use dispatchers. */
  onDispatch(): void
  /** Called when the connection is open and the request is sent. */
  onConnect(): void
}

/** Fields for fetch's second argument. */
export function dispatcherFor(watcher: Watcher): { dispatcher: Dispatcher } | undefined {
  const undici = undiciVersion()
  if (undici === undefined) return undefined
  return {
    dispatcher: {
      dispatch(options, handler) {
        watcher.onDispatch()
        return globalDispatcher(undici).dispatch(
          { ...options, headersTimeout: 0, bodyTimeout: 0 },
          watched(handler, watcher),
        )
      },
    },
  }
}

/**
 * Fields for fetch's second argument, with a body that is a stream. Up to Node 24 fetch keeps the whole body in
 * memory for a possible redirect, unless redirects are refused and `window` is null.
 */
export function initForStreams(): RequestInit {
  return undiciVersion() === undefined ? {} : { redirect: 'error', window: null }
}

/** Whether this is fetch's error for such a redirect. */
export function isRefusedRedirect(error: unknown): boolean {
  const { cause } = error as { readonly cause?: { readonly message?: unknown } }
  return cause?.message === 'unexpected redirect'
}

/** The version of the undici inside Node, which Node's fetch uses. Bun and Deno only imitate the field. */
function undiciVersion(): number | undefined {
  const { process } = globalThis as {
    readonly process?: { readonly versions?: Readonly<Record<string, string>> }
  }
  const { undici, bun, deno } = process?.versions ?? {}
  return undici === undefined || bun || deno ? undefined : Number.parseInt(undici)
}

/** A package of another version may have set a dispatcher that Node's fetch can't use. */
function globalDispatcher(undici: number): Dispatcher {
  const known = globalThis as unknown as Readonly<Record<symbol, Dispatcher | undefined>>
  const newest = undici < 8 ? undefined : known[Symbol.for('undici.globalDispatcher.2')]
  const found = newest ?? known[Symbol.for('undici.globalDispatcher.1')]
  if (!found) throw new TypeError('fetch has no dispatcher')
  return found
}

function watched(handler: Handler, watcher: Watcher): Handler {
  const own = Object.create(handler) as Record<string, unknown>
  for (const name of begins) {
    const begin = handler[name]
    if (typeof begin !== 'function') continue
    own[name] = (...words: readonly unknown[]) => {
      watcher.onConnect()
      return begin.apply(own, words) as unknown
    }
  }
  return own
}
