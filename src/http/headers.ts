// The header list of an answer, as Node takes it fastest: flat, name after value. Values may come from anywhere
// (a client's id, a file's name, a backend): nothing in them can end a header or begin another.

export type Headers = Readonly<Record<string, string>>

/** A name that is not an HTTP token is left out; control characters and characters outside latin1 become `?`. */
export function headerList(id: string, ...groups: readonly Headers[]): string[] {
  const list = ['X-Request-Id', id]
  for (const group of groups) {
    for (const name in group) {
      const value = group[name]
      if (value === undefined || !token.test(name)) continue
      list.push(name, unsafe.test(value) ? value.replace(allUnsafe, '?') : value)
    }
  }
  return list
}

const token = /^[\w!#$%&'*+.^`|~-]+$/
const unsafe = /[^\t\x20-\x7e\x80-\xff]/
const allUnsafe = new RegExp(unsafe, 'g')

/** Names are compared without case, because many parts of the gateway write headers. */
export function headerOf(headers: Headers, lowerName: string): string | undefined {
  for (const name in headers) {
    if (name.length === lowerName.length && name.toLowerCase() === lowerName) return headers[name]
  }
  return undefined
}
