// Every Lua file of the ledger is in its library, says what it does, and prints no amounts.

import { readFileSync, readdirSync } from 'node:fs'
import t from 'tap'
import { ledgerScripts } from '../../src/ledger/library.ts'

t.test('every script says its purpose, keys, arguments and reply', async (t) => {
  const { folder, scripts } = ledgerScripts
  const heads = new Set<string>(Object.values(scripts).flat())
  for (const file of readdirSync(folder)) {
    const name = file.replace('.lua', '')
    const text = readFileSync(new URL(file, folder), 'utf8')
    t.match(text, /^-- Purpose: /, name)
    t.notMatch(text, /cjson|tostring\(/, `${name} prints no amounts`)
    if (heads.has(name)) continue
    t.ok(Object.hasOwn(scripts, name), `${name} is in the library`)
    t.match(text, /\n-- KEYS: [^]*\n-- ARGV: [^]*\n-- Reply: /, name)
  }
})
