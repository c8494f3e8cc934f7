// What Node's fetch can't be asked for: to be told of the connection, no limits of its own on how long an answer may
// take (it has 300 s), and a body that isn't kept. Hands each request on to the dispatcher that is set globally, so
// proxies and agents stay as they are. Does nothing in other runtimes.

type Handler = Readonly<Record<string, unknown>>

interface Dispatcher {
  dispatch(options: object, handler: Handler): boolean
}

const begins = ['onRequestStart', 'onConnect']

interface Watcher {
  /** A connection is looked for. Not called by a fetch that knows no dispatchers. */
  onDispatch(): void
  /** It is there, and the request goes out. */
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
 * Fields for fetch's second argument, with a body that is a stream. Up to Node 24 all of it stays in memory until it
 * is sent, for a redirect that might want it again; unless none is to be followed, for nobody's window.
 */
export function initForStreams(): RequestInit {
  return undiciVersion() === undefined ? {} : { redirect: 'error', window: null }
}

/** Of that redirect. */
export function isRefusedRedirect(error: unknown): boolean {
  const { cause } = error as { readonly cause?: { readonly message?: unknown } }
  return cause?.message === 'unexpected redirect'
}

/** Of the one within Node, whose fetch it is. Bun and Deno only pretend. */
function undiciVersion(): number | undefined {
  const { process } = globalThis as {
    readonly process?: { readonly versions?: Readonly<Record<string, string>> }
  }
  const { undici, bun, deno } = process?.versions ?? {}
  return undici === undefined || bun || deno ? undefined : Number.parseInt(undici)
}

/** A package of another version may have set one that Node's fetch can't speak to. */
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
