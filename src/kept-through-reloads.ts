// State of a plugin that outlives a configuration: a reload sets all plugins up again, and must not forget what they
// count, or what is under way.

import type { Gateway } from './plugin.ts'

/** Declares such state: `make` is called at its first use, once in a gateway. */
export function keptThroughReloads<T extends object, Settings extends readonly unknown[] = []>(
  make: (gateway: Gateway, ...settings: Settings) => T,
): (gateway: Gateway, ...settings: Settings) => T {
  const made = new WeakMap<Gateway['state'], T>()
  return (gateway, ...settings) => {
    const known = made.get(gateway.state)
    if (known) return known
    const fresh = make(gateway, ...settings)
    made.set(gateway.state, fresh)
    return fresh
  }
}
