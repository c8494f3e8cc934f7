// The data folder: makes it private, and keeps the admin token in it. A folder with other things in it is refused:
// `data: /tmp` would lock all other users out of /tmp.

import { randomBytes } from 'node:crypto'
import { chmod, link, mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { hasCode } from '../errors.ts'

const tokenName = 'admin-token'
/** The prefix of a token file that is being written; the file stays if the gateway is killed meanwhile. */
const freshToken = `.${tokenName}-`
/** What else a gateway puts into its folder. Other folders have such names, too: /usr has a `bin`, /var a `lock` and a `spool`. */
const ownNames = new Set(['bin', 'lock', 'redis', 'redis.json', 'redis.json.new', 'spool', 'store'])
/** Names that count as empty: a new disk has `lost+found`, and a repository marks an empty folder with the others. */
const nothing = new Set(['lost+found', '.gitignore', '.gitkeep'])

/** Makes the folder and those above it; only its owner may look inside. */
export async function ensureDataFolder(dir: string): Promise<void> {
  const made = await mkdir(dir, { recursive: true, mode: 0o700 })
  const names = (await readdir(dir)).filter((name) => !nothing.has(name))
  const isOwn = (name: string) =>
    ownNames.has(name) || name.startsWith(freshToken) || /^lock\.\d+$/.test(name)
  const isOurs = names.includes(tokenName) || names.every(isOwn)
  // If the folder is private already, nobody would be locked out.
  if (!isOurs && !(names.some(isOwn) && (await isPrivate(dir)))) {
    throw new Error(
      `the data folder ${dir} has other things in it. Set \`data\` to a folder that is empty or not there yet.`,
    )
  }
  // A folder that existed before keeps its mode if this user may not change it (a mounted volume).
  if (made === undefined) await chmod(dir, 0o700).catch(() => undefined)
}

async function isPrivate(dir: string): Promise<boolean> {
  return ((await stat(dir)).mode & 0o077) === 0
}

/** The given token, or the token in the folder, which is made at the first start and readable by its owner alone. */
export async function ensureAdminToken(dir: string, given: string): Promise<string> {
  if (given !== '') return given
  const path = join(dir, tokenName)
  const fresh = join(dir, `${freshToken}${randomBytes(6).toString('hex')}`)
  try {
    await using file = await open(fresh, 'wx', 0o600)
    await file.writeFile(`${randomBytes(32).toString('base64url')}\n`)
    await file.sync()
    await link(fresh, path).catch((error: unknown) => {
      if (!hasCode(error, 'EEXIST')) throw error
    })
  } finally {
    await rm(fresh, { force: true })
  }
  const token = (await readFile(path, 'utf8')).trim()
  if (token === '') throw new Error(`${path} is empty. Remove it, and a new token is made.`)
  return token
}
