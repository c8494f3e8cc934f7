// Follows a README's instructions for installing, in an empty folder beside a clone of the repository.

import assert from 'node:assert/strict'
import { cp, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { blocksOf, folderOf, inFolder, outputOf, sourcesOf } from './tools.ts'

export interface Stranger {
  /** The folder in which the commands run; the clone is beside it. */
  readonly cwd: string
  /** The README's first block of commands. */
  install(env?: Readonly<Record<string, string>>): Promise<void>
}

/** The clone has only the client: installing must not need other parts of the repository. */
export async function asStranger(
  client: string,
  use: (stranger: Stranger) => Promise<void>,
): Promise<void> {
  await inFolder(async (folder) => use(await strangerIn(folder, client)))
}

/** Runs in an empty folder. */
export async function strangerIn(folder: string, client: string): Promise<Stranger> {
  const home = folderOf(client)
  const [commands = ''] = await blocksOf(join(home, 'README.md'), 'sh')
  assert.notEqual(commands, '', 'its README does not say how to install it')
  const clone = join(folder, 'tollgate/clients', client)
  for (const path of await sourcesOf(home)) {
    await cp(join(home, path), join(clone, path), { preserveTimestamps: true })
  }
  const cwd = join(folder, 'app')
  await mkdir(cwd)
  const install = async (env = {}) => {
    await outputOf('bash', ['-euc', commands], { cwd, env })
  }
  return { cwd, install }
}
