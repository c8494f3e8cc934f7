// What Node's fetch can't be asked for: to be told of the connection, and no limits of its own on how long an answer may
// take (it has 300 s). Hands each request on to the dispatcher that is set globally, so proxies and agents stay as they
// are. Does nothing in other runtimes.

type Handler = Readonly<Record<string, unknown>>

interface Dispatcher {
  dispatch(options: object, handler: Handler): boolean
}

/** undici's, by its version; the newest that is there. */
const globals = ['undici.globalDispatcher.2', 'undici.globalDispatcher.1'].map(Symbol.for)
const begins = ['onRequestStart', 'onConnect']

/** Fields for fetch's second argument. `onConnect`: the connection is there, the request goes out. */
export function dispatcherFor(onConnect: () => void): { dispatcher: Dispatcher } | undefined {
  const runtime = globalThis as { process?: { versions?: Readonly<Record<string, string>> } }
  const versions = runtime.process?.versions
  if (!versions?.undici || versions.bun || versions.deno) return undefined
  return {
    dispatcher: {
      dispatch: (options, handler) =>
        globalDispatcher().dispatch(
          { ...options, headersTimeout: 0, bodyTimeout: 0 },
          watched(handler, onConnect),
        ),
    },
  }
}

function globalDispatcher(): Dispatcher {
  const known = globalThis as unknown as Readonly<Record<symbol, Dispatcher | undefined>>
  const symbol = globals.find((one) => known[one] !== undefined)
  const found = symbol && known[symbol]
  if (!found) throw new TypeError('fetch has no dispatcher')
  return found
}

function watched(handler: Handler, onConnect: () => void): Handler {
  const own = Object.create(handler) as Record<string, unknown>
  for (const name of begins) {
    const begin = handler[name]
    if (typeof begin !== 'function') continue
    own[name] = (...words: readonly unknown[]) => {
      onConnect()
      return begin.apply(own, words) as unknown
    }
  }
  return own
}
