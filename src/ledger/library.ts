// The Lua scripts that move money, as scripts.ts loads them.

import type { ScriptLibrary, Scripts } from '../scripts.ts'

export const ledgerScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    identify: ['prelude', 'door'],
    admit: ['prelude', 'door'],
    checkpoint: ['prelude'],
    settle: ['prelude'],
    credit: ['prelude'],
    trim: ['prelude'],
  },
} satisfies ScriptLibrary<string>

export type LedgerScript = keyof typeof ledgerScripts.scripts
export type LedgerScripts = Scripts<LedgerScript>
