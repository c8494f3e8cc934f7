// What keys are called in charts and lists that know only their ids.

import { texts } from './texts.js'

/**
 * @param {readonly import('./shapes.js').Key[]} keys
 * @param {import('./main.js').Me} me
 * @returns {(id: string) => string}
 */
export function keyNames(keys, { playground_key_id: ofPlayground }) {
  const names = new Map(keys.map(({ id, name, hint }) => [id, name || hint]))
  // The keys of the playground are not listed, nor are keys that ended long ago.
  return (id) =>
    names.get(id) ?? (id === ofPlayground ? texts.views.playground : texts.keys.forgotten)
}
