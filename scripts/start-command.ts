// The words of the command that `npm start` runs, so that tests and benchmarks start a gateway as its users do.

import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

const ownTree = resolve(import.meta.dirname, '..')

/** `flags` are added for Node; `root` is another checkout. */
export function startCommand(flags: readonly string[] = [], root = ownTree): readonly string[] {
  const { scripts } = JSON.parse(readFileSync(resolve(root, 'package.json'), 'utf8')) as {
    readonly scripts: { readonly start: string }
  }
  // The words before `node` are the shell's.
  const all = scripts.start.split(' ')
  const words = all.slice(all.indexOf('node') + 1)
  const at = words.findIndex((word) => !word.startsWith('-'))
  const file = resolve(root, words[at] ?? '')
  return [process.execPath, ...words.slice(0, at), ...flags, file, ...words.slice(at + 1)]
}
