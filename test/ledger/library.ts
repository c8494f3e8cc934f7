// Every Lua file of the ledger is in its library, says what it does, and prints no amounts.

import { readFileSync, readdirSync } from 'node:fs'
import t from 'tap'
import { ledgerScripts } from '../../src/ledger/library.ts'

t.test('every script says its purpose, keys, arguments and reply', async (t) => {
  const { folder, scripts } = ledgerScripts
  for (const name of readdirSync(folder)) {
    const text = readFileSync(new URL(name, folder), 'utf8')
    t.match(text, /^-- Purpose: /)
    if (Object.hasOwn(scripts, name.replace('.lua', '')))
      t.match(text, /\n-- KEYS: [^]*\n-- ARGV: [^]*\n-- Reply: /, name)
    t.notMatch(text, /cjson|tostring\(/, `${name} prints no amounts`)
  }
})
