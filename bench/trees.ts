// Checkouts to compare: a folder as it stands, or a revision of this repository, unpacked and installed for this run.

import { execFile, execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync } from 'node:fs'
import { symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { folder as ownFolder } from './ground.ts'

const root = resolve(import.meta.dirname, '..')

/** The folder of a gateway. Throws for what is neither a folder with one nor a revision. */
export async function treeOf(word: string): Promise<string> {
  // npm changes to its own folder.
  const folder = resolve(process.env['INIT_CWD'] ?? '.', word)
  if (existsSync(join(folder, 'package.json'))) return folder
  const commit = execFileSync('git', ['rev-parse', '--verify', `${word}^{commit}`], {
    cwd: root,
    encoding: 'utf8',
  }).trim()
  const made = mkdtempSync(join(ownFolder, 'tree-'))
  await unpack(commit, made)
  return made
}

async function unpack(commit: string, folder: string): Promise<void> {
  const exec = promisify(execFile)
  const archive = `${folder}.tar`
  await exec('git', ['archive', '-o', archive, commit], { cwd: root })
  await exec('tar', ['-xf', archive, '-C', folder])
  const lock = 'package-lock.json'
  const hasOurs = readFileSync(join(folder, lock)).equals(readFileSync(join(root, lock)))
  if (hasOurs) return await symlink(join(root, 'node_modules'), join(folder, 'node_modules'))
  console.error(`Installing the packages of ${commit} …`)
  await exec('npm', ['ci'], { cwd: folder })
}
