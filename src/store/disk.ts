// Objects as files below one folder: names with slashes are paths. An object is there whole or not at all, also after a
// power cut, and what `put` has acknowledged stays. It keeps no metadata and does not lock: the last put of a name wins.

import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { hasCode } from '../errors.ts'

export interface ObjectStore {
  /** On disk when it resolves. */
  put(name: string, content: Uint8Array | Readable): Promise<void>
  /** Rejects with `code: 'ENOENT'` when there is none. */
  get(name: string): Promise<Buffer>
  /** Names that begin with the prefix, sorted by their UTF-16 units. */
  list(prefix: string): Promise<string[]>
}

/** The folder is made at the first put. */
export function diskStore(path: string): ObjectStore {
  const root = resolve(path)
  const temporary = join(root, temporaryFolder)
  return {
    async put(name, content) {
      const target = pathOf(root, name)
      await mkdir(temporary, { recursive: true, mode: 0o700 })
      const fresh = join(temporary, randomBytes(12).toString('hex'))
      try {
        await writeDurably(fresh, content)
        const made = await mkdir(dirname(target), { recursive: true, mode: 0o700 })
        await rename(fresh, target)
        await syncFolders(dirname(target), made ? dirname(made) : dirname(target))
      } finally {
        await rm(fresh, { force: true })
      }
    },
    get: async (name) => readFile(pathOf(root, name)),
    async list(prefix) {
      const names: string[] = []
      await walk(root, folderOf(prefix), (name) => {
        if (name.startsWith(prefix)) names.push(name)
      })
      return names.sort()
    },
  }
}

/** No name may begin like this, so half-written files are never listed. */
const temporaryFolder = '.tmp'

// Letters that mean the same in every file system, parts that are never `.`, `..` or hidden.
const goodPart = /^[A-Za-z0-9_=-][A-Za-z0-9_=.-]{0,199}$/

function pathOf(root: string, name: string): string {
  const parts = name.split('/')
  if (name.length > 1000 || !parts.every((part) => goodPart.test(part))) {
    throw new TypeError(`not a name for an object: ${JSON.stringify(name.slice(0, 100))}`)
  }
  return join(root, ...parts)
}

/** The folders that a prefix names in full; those of a bad prefix are never walked into. */
function folderOf(prefix: string): readonly string[] {
  const parts = prefix.split('/').slice(0, -1)
  if (!parts.every((part) => goodPart.test(part))) {
    throw new TypeError(`not a prefix of objects: ${JSON.stringify(prefix.slice(0, 100))}`)
  }
  return parts
}

async function walk(
  root: string,
  folder: readonly string[],
  found: (name: string) => void,
): Promise<void> {
  const entries = await readdir(join(root, ...folder), { withFileTypes: true }).catch(ignoreMissing)
  for (const entry of entries ?? []) {
    if (!goodPart.test(entry.name)) continue
    const parts = [...folder, entry.name]
    if (entry.isDirectory()) await walk(root, parts, found)
    else if (entry.isFile()) found(parts.join('/'))
  }
}

async function writeDurably(path: string, content: Uint8Array | Readable): Promise<void> {
  const file = await open(path, 'wx', 0o600)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
}

/** From the file's folder up to the one that was there before: a new name is only safe with the folder that lists it. */
async function syncFolders(from: string, to: string): Promise<void> {
  for (let folder = from; ; folder = dirname(folder)) {
    const handle = await open(folder, 'r')
    try {
      await handle.sync()
    } finally {
      await handle.close()
    }
    if (folder === to || folder === dirname(folder)) return
  }
}

function ignoreMissing(error: unknown): undefined {
  if (hasCode(error, 'ENOENT')) return undefined
  throw error
}
