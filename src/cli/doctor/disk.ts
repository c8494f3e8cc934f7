// The part of `tollgate doctor` for a store on disk only: checks its free space, and removes the folders that the
// checks have made.

import { rmdir, stat, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fail, ok, warn } from './examination.ts'
import type { CheckOutcome } from './examination.ts'

const leastBytes = 2 ** 30

/** The free space of the file system that the folder is on, or will be on. The store takes no file that would leave less than the reserve. */
export async function judgeSpace(path: string, reserveBytes: number): Promise<CheckOutcome> {
  const { bavail, bsize } = await statfs((await missingOf(path)).above)
  const free = bavail * bsize
  const detail = `${path} has ${inGiB(free)} free`
  const reserve = `store.disk.reserve, ${inGiB(reserveBytes)}`
  if (free < reserveBytes) return fail(`${detail}, less than ${reserve}: files are refused`)
  if (free - reserveBytes >= leastBytes) return ok(detail)
  return warn(`${detail}, and ${reserve}, stays free: little is left for files`)
}

const inGiB = (bytes: number) => `${(bytes / 2 ** 30).toFixed(1)} GiB`

/** Call it before the checks of a store at `path`. The function that it returns removes the folders that did not exist before. */
export async function watchFolders(path: string): Promise<() => Promise<void>> {
  const folders = [join(path, 'doctor'), join(path, '.tmp'), path]
  const missing = await Promise.all(
    folders.map(async (folder) => (await missingOf(folder)).missing),
  )
  const fresh = new Set(missing.flat())
  return async () => {
    for (const folder of [...fresh].toSorted((a, b) => b.length - a.length)) {
      await rmdir(folder).catch(() => undefined) // never made, or by now it has files of others
    }
  }
}

interface DiskWay {
  /** The folders of the path that do not exist, the deepest first. */
  readonly missing: readonly string[]
  /** The deepest folder of the path that exists. */
  readonly above: string
}

async function missingOf(path: string): Promise<DiskWay> {
  const missing: string[] = []
  let above = path
  while (!(await isThere(above)) && above !== dirname(above)) {
    missing.push(above)
    above = dirname(above)
  }
  return { missing, above }
}

function isThere(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
