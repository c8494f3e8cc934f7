// Reads JSON that anybody may have written: each value is checked to be an object before it is used as one.

/** A field's value; returns undefined when `value` is not an object or has no such field. */
export function field(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
  return (value as Record<string, unknown>)[name]
}

/** Returns undefined when the text is not JSON. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
