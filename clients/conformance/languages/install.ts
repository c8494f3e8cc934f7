// What a README says of installing, done as it says: in an empty folder beside a clone of the repository.

import assert from 'node:assert/strict'
import { cp, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { blocksOf, folderOf, inFolder, outputOf, sourcesOf } from './tools.ts'

export interface Stranger {
  /** Where the commands are run; its parent has the clone. Gone afterwards. */
  readonly cwd: string
  /** The README's first block of commands. */
  install(env?: Readonly<Record<string, string>>): Promise<void>
}

/** Of the clone there is the client alone: installing may need nothing else of it. */
export async function asStranger(
  client: string,
  use: (stranger: Stranger) => Promise<void>,
): Promise<void> {
  const home = folderOf(client)
  const [commands = ''] = await blocksOf(join(home, 'README.md'), 'sh')
  assert.notEqual(commands, '', 'its README does not say how to install it')
  await inFolder(async (folder) => {
    const clone = join(folder, 'tollgate/clients', client)
    for (const path of await sourcesOf(home)) await cp(join(home, path), join(clone, path))
    const cwd = join(folder, 'app')
    await mkdir(cwd)
    const install = async (env = {}) => {
      await outputOf('bash', ['-euc', commands], { cwd, env })
    }
    await use({ cwd, install })
  })
}
