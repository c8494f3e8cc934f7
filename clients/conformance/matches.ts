// Compares a value with what is expected: objects by the named fields, lists item by item, text by a pattern, any value
// by a function. Says where they differ.

import { isDeepStrictEqual } from 'node:util'

/** Returns the differences; an empty list means a match. */
export function differences(came: unknown, expected: unknown, at = ''): readonly string[] {
  if (typeof expected === 'function') {
    return (expected as (value: unknown) => boolean)(came) ? [] : [told(at, came, expected)]
  }
  if (expected instanceof RegExp) {
    return typeof came === 'string' && expected.test(came) ? [] : [told(at, came, expected)]
  }
  if (Array.isArray(expected)) {
    if (!Array.isArray(came)) return [told(at, came, expected)]
    const short =
      came.length === expected.length ? [] : [`${at}: ${came.length} items, not ${expected.length}`]
    return short.concat(expected.flatMap((item, i) => differences(came[i], item, `${at}[${i}]`)))
  }
  if (typeof expected === 'object' && expected !== null) {
    if (typeof came !== 'object' || came === null) return [told(at, came, expected)]
    return Object.entries(expected).flatMap(([name, value]) =>
      differences(
        (came as Record<string, unknown>)[name],
        value,
        at === '' ? name : `${at}.${name}`,
      ),
    )
  }
  // Three of the four languages do not tell an absent field from null.
  return isDeepStrictEqual(came ?? null, expected ?? null) ? [] : [told(at, came, expected)]
}

function told(at: string, came: unknown, expected: unknown): string {
  const words =
    expected instanceof RegExp || typeof expected === 'function'
      ? String(expected)
      : JSON.stringify(expected)
  return `${at}: ${shorten(JSON.stringify(came) ?? 'absent')}, not ${shorten(words ?? 'absent')}`
}

function shorten(text: string): string {
  return text.length > 600 ? `${text.slice(0, 500)} … ${text.slice(-80)}` : text
}
