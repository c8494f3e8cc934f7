// A row of the table of parameters (parameters.ts): which fields, on which endpoints, and what happens to them. The rows of
// fields that only one kind of endpoint has are made here, from the table of endpoints.

import { endpoints, fieldsOf } from '../config/endpoints.ts'
import type { Endpoint } from '../config/endpoints.ts'
import type { Check } from './parameter-bounds.ts'

/**
 * `passes`: goes to the backend byte for byte. `bounded`: the same, within bounds. `gateway`: the gateway reads it or
 * writes it. `word`: passes only when the model's `extra_parameters` lists it. `never`: does not pass even then.
 */
export type Way = 'passes' | 'bounded' | 'gateway' | 'word' | 'never'

export interface ParameterRow {
  readonly names: readonly string[]
  readonly endpoints: readonly Endpoint[]
  readonly way: Way
  /** Whole sentences, for the docs. For `never` the client reads them, too. */
  readonly why: string
  /** Not called for null, which counts as absent. */
  readonly check?: Check
}

type Rest = Omit<ParameterRow, 'names' | 'endpoints' | 'way'>

/** Names in one text, since there are many. */
export function row(
  way: Way,
  endpoints: readonly Endpoint[],
  names: string,
  rest: Rest,
): ParameterRow {
  return { names: names.trim().split(/\s+/), endpoints, way, ...rest }
}

/** The fields of the endpoints that generate nothing, as their table has them. */
export function ownRows(): readonly ParameterRow[] {
  const plain = endpoints.filter(({ generates }) => !generates)
  const byFields = Map.groupBy(plain, (one) => fieldsOf(one).join(' '))
  return [...byFields].map(([names, alike]) => {
    const hasMedia = alike.some(({ media }) => media.length > 0)
    const why = hasMedia ? 'Media as in messages.' : 'Counted as prompt.'
    const on = alike.map(({ endpoint }) => endpoint)
    return row('gateway', on, names, { why })
  })
}
