// Builds the TypeScript client with npm and tsc, outside its sources: with its driver, and as the package that a user
// installs. Each is made once, and kept under a name that identifies its sources.

import { cp, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ensureMade } from '../../../../scripts/cache.ts'
import { folderOf, hashOf, inFolder, outputOf, sourcesOf } from '../tools.ts'

export const home = folderOf('typescript')
const install = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline']

/** A copy of the sources with all packages and the built driver. */
export async function ensureBuilt(): Promise<string> {
  const name = `typescript-${await hashOf(home)}`
  return await ensureMade(name, async (folder) => {
    await copySources(folder)
    await outputOf('node_modules/.bin/tsc', ['-p', 'tsconfig.driver.json'], { cwd: folder })
  })
}

/** A copy of the sources outside node_modules, because some tools ignore what is inside it, as the cache is. */
export async function inSources<T>(use: (folder: string) => Promise<T>): Promise<T> {
  return await inFolder(async (folder) => {
    await copySources(folder)
    return await use(folder)
  })
}

/** An empty project with the package from its archive. */
export async function inProject(use: (folder: string) => Promise<void>): Promise<void> {
  const installed = await ensureInstalled()
  await inFolder(async (folder) => {
    await cp(installed, folder, { recursive: true })
    await use(folder)
  })
}

async function copySources(folder: string): Promise<void> {
  for (const path of await sourcesOf(home)) await cp(join(home, path), join(folder, path))
  await symlink(await ensurePackages(), join(folder, 'node_modules'))
}

/** The packages of package-lock.json. */
export async function ensurePackages(): Promise<string> {
  const files = ['package.json', 'package-lock.json']
  const name = `typescript-packages-${await hashOf(home, files)}`
  const made = await ensureMade(name, async (folder) => {
    for (const file of files) await cp(join(home, file), join(folder, file))
    await outputOf('npm', ['ci', ...install], { cwd: folder })
  })
  return join(made, 'node_modules')
}

async function ensureInstalled(): Promise<string> {
  const name = `typescript-user-${await hashOf(home)}`
  return await ensureMade(name, async (folder) => {
    const pack = ['pack', '--pack-destination', folder]
    await inSources(async (cwd) => outputOf('npm', pack, { cwd }))
    const [archive = ''] = (await readdir(folder)).filter((file) => file.endsWith('.tgz'))
    await writeFile(join(folder, 'package.json'), '{ "type": "module", "private": true }\n')
    await outputOf('npm', ['install', ...install, `./${archive}`], { cwd: folder })
  })
}
