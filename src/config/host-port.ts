// Addresses: the defaults of listeners, a parser of `host:port`, and which names are this machine's own. This file
// imports nothing: a command that only asks where the gateway listens must not load zod.

export const defaultPort = 8080
export const defaultAdmin = { host: '127.0.0.1', port: 9090 } as const

const pattern = /^(?:\[([0-9A-Fa-f:.]+)\]|([^\s:/[\]@]*)):(\d{1,5})$/

/** `host:port`, `[::1]:port`, `:port` for every address, or a port alone (from the environment) for 127.0.0.1. */
export function parseHostPort(text: string): { host: string; port: number } | undefined {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65_535) {
    return { host: '127.0.0.1', port: Number(text) }
  }
  const [, inBrackets, plain, digits] = pattern.exec(text) ?? []
  const port = Number(digits)
  if (digits === undefined || port > 65_535) return undefined
  return { host: (inBrackets ?? plain) || '0.0.0.0', port }
}

/** Whether a URL's hostname, in lower case and with the brackets of IPv6, always leads to this machine. */
export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}
