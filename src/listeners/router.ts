// Finds the route of a method and path. Exact: case counts, a slash at the end counts, nothing is resolved. The only
// aliases are `/v1/api/…` for `/api/…`, and HEAD, which GET routes serve.

import findMyWay from 'find-my-way'
import type { HTTPMethod } from 'find-my-way'
import { GatewayError } from '../errors.ts'
import type { Route } from '../exchange.ts'

interface RouteMatch {
  readonly route: Route
  readonly params: Readonly<Record<string, string | undefined>>
}

export interface Router {
  /** Throws `route_not_found` or `method_not_allowed`. */
  find(method: string, path: string): RouteMatch
}

/** OPTIONS is not counted as a method of a resource: even if CORS answers it for every path, an unknown path must get 404. */
const resourceMethods = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'] as const
const methods: ReadonlySet<string> = new Set([...resourceMethods, 'OPTIONS'])
/** As long as a path can be: an unknown id gets its resource's own 404 (such as `file_not_found`), however long the id is. */
const maxParamLength = 16 * 1024

/**
 * A path that some route has without parameters is that route's alone: `/api/files/upload` is no file's id, so GET of it
 * is 405. Throws when two routes are the same, or when a route of an operator's plugin is not whole. `strayMessage` is
 * for requests without a route.
 */
export function createRouter(
  routes: readonly Route[],
  { strayMessage }: { readonly strayMessage?: string | undefined } = {},
): Router {
  const table = findMyWay({ caseSensitive: true, maxParamLength })
  /** By path, of the paths without parameters: most requests are for one of these. */
  const fixed = new Map<string, Map<string, RouteMatch>>()
  for (const route of routes) {
    checkRoute(route)
    for (const path of mounts(route.path)) {
      table.on(route.method, path, nobody, route)
      if (/[:*]/.test(path)) continue
      const own = fixed.get(path) ?? new Map<string, RouteMatch>()
      fixed.set(path, own.set(route.method, { route, params: none }))
    }
  }
  const look = (method: string, path: string): RouteMatch | undefined => {
    if (!methods.has(method) || !path.startsWith('/')) return undefined
    const found = table.find(method as HTTPMethod, path)
    return found ? { route: found.store as Route, params: found.params } : undefined
  }
  return {
    find(method, path) {
      const asked = method === 'HEAD' ? 'GET' : method
      const own = fixed.get(path)
      const known = own?.get(asked)
      if (known) return known
      const found = look(asked, path)
      if (found && (own === undefined || asked === 'OPTIONS')) return found
      const allowed = resourceMethods.filter((one) => own?.has(one) ?? look(one, path))
      if (allowed.length > 0) throw notAllowed(allowed)
      throw new GatewayError('route_not_found', { message: strayMessage })
    },
  }
}

/** The compiler checks this too, but does not see an operator's plugin. Without `maxBytes`, every body would be 413. */
function checkRoute({ method, path, begin, body, maxBytes }: Route): void {
  const name = `The route ${method} ${path}`
  if (typeof begin !== 'function') throw new Error(`${name} has no function "begin".`)
  if (body === 'json' && maxBytes === undefined) {
    throw new Error(`${name} reads a body of JSON and has no "maxBytes".`)
  }
}

const none = Object.freeze({})

function mounts(path: string): readonly string[] {
  return path.startsWith('/api/') ? [path, `/v1${path}`] : [path]
}

function notAllowed(allowed: readonly string[]): GatewayError {
  const names = allowed.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return new GatewayError('method_not_allowed', { headers: { Allow: names.join(', ') } })
}

/** Never called: the table only finds routes; lifecycle.ts serves them. */
function nobody(): void {}
