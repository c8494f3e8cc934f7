// Checkouts to compare: a folder as it stands, or a revision of this repository, unpacked and installed for this run.

import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { folder as ownFolder } from './ground.ts'

const root = resolve(import.meta.dirname, '..')

export interface Tree {
  /** As the user wrote it. */
  readonly name: string
  readonly folder: string
}

/** Throws for what is neither a folder with a gateway nor a revision. */
export async function treeOf(name: string): Promise<Tree> {
  if (existsSync(join(name, 'package.json'))) return { name, folder: resolve(name) }
  const commit = execFileSync('git', ['rev-parse', '--verify', `${name}^{commit}`], {
    cwd: root,
    encoding: 'utf8',
  }).trim()
  const folder = mkdtempSync(join(ownFolder, 'tree-'))
  await unpack(commit, folder)
  return { name, folder }
}

async function unpack(commit: string, folder: string): Promise<void> {
  const exec = promisify(execFile)
  const script = 'git archive "$1" | tar -x -C "$2"'
  await exec('sh', ['-c', script, 'sh', commit, folder], { cwd: root })
  const lock = 'package-lock.json'
  const hasOurs = readFileSync(join(folder, lock)).equals(readFileSync(join(root, lock)))
  if (hasOurs) return await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  console.error(`Installing the packages of ${commit} …`)
  await exec('npm', ['ci'], { cwd: folder })
}
