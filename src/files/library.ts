// The Lua scripts that keep files, as redis/scripts.ts loads them. Each script touches the keys of one account only.

import type { ScriptLibrary, Scripts } from '../redis/scripts.ts'

/** What an account has stored: sessions count in the same row. */
const storage = '../../accounts/lua/storage'

export const fileScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    begin: ['announced'],
    reserve: [storage],
    commit: [storage, 'announced'],
    forget: [],
    drop: ['announced', 'away'],
    expire: [storage, 'away'],
    claim: [],
    outlive: [],
    close: [],
  },
} satisfies ScriptLibrary<string>

export type FileScript = keyof typeof fileScripts.scripts
export type FileScripts = Scripts<FileScript>
