// Parameters of a query that several routes read: times and words. Each is refused by its name.

import { single } from './page.ts'
import { invalid } from './refusals.ts'

/** Unix seconds; undefined when it is not there. */
export function parseSeconds(query: URLSearchParams, name: string): number | undefined {
  const text = single(query, name)
  if (text === undefined) return undefined
  if (!/^\d{1,11}$/.test(text)) throw invalid(name, 'must be Unix seconds')
  return Number(text)
}

/** One of these words; undefined when it is not there. */
export function oneOf<T extends string>(
  query: URLSearchParams,
  name: string,
  values: readonly T[],
): T | undefined {
  const text = single(query, name)
  if (text === undefined) return undefined
  const found = values.find((value) => value === text)
  if (!found) throw invalid(name, `must be ${listed(values)}`)
  return found
}

function listed(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`
}
