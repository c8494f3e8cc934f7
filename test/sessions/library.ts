// Every Lua file of the sessions is in their library and says what it does.

import { readFileSync, readdirSync } from 'node:fs'
import t from 'tap'
import { sessionScripts } from '../../src/sessions/library.ts'

t.test('every script says its purpose, keys, arguments and reply', async (t) => {
  const { folder, scripts } = sessionScripts
  const heads = new Set<string>(Object.values(scripts).flat())
  for (const file of readdirSync(folder)) {
    const name = file.replace('.lua', '')
    const text = readFileSync(new URL(file, folder), 'utf8')
    t.match(text, /^-- Purpose: /, name)
    if (heads.has(name)) continue
    t.ok(Object.hasOwn(scripts, name), `${name} is in the library`)
    t.match(text, /\n-- KEYS: [^]*\n-- ARGV: [^]*\n-- Reply: /, name)
    t.notMatch(text, /cjson|tostring\(/, `${name} prints no numbers of its own`)
  }
})
