// The Lua scripts that keep sessions and their messages, as scripts.ts loads them.

import type { ScriptLibrary, Scripts } from '../scripts.ts'

export const sessionScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    create: ['keep'],
    patch: ['keep'],
    remove: [],
    recent: [],
    begin: ['keep'],
    append: [],
    finish: ['keep', 'ending'],
    withdraw: [],
    lost: ['keep', 'ending'],
    amend: [],
    cancel: [],
  },
} satisfies ScriptLibrary<string>

export type SessionScript = keyof typeof sessionScripts.scripts
export type SessionScripts = Scripts<SessionScript>
