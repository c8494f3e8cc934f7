// The TypeScript client's face to the runner: made by npm and tsc in a copy outside the sources, and its own checks.

import { cp, mkdir, mkdtemp, rename, rm, symlink } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { cacheFolder, isThere } from '../../../scripts/model-server/python.ts'
import type { Language } from '../language.ts'
import { hashOf, outputOf, sourcesOf } from './typescript/tools.ts'

const home = resolve(import.meta.dirname, '../../typescript')

export const typescript: Language = {
  name: 'typescript',
  async missing() {
    const version = await outputOf('npm', ['--version']).catch(() => '')
    return version === '' ? ['npm'] : []
  },
  async driver() {
    const folder = await ensureBuilt()
    return { command: process.execPath, words: [join(folder, 'driver/conformance/driver.js')] }
  },
  checks: {},
}

/** A copy of the sources with all packages, and the driver built. */
async function ensureBuilt(): Promise<string> {
  const sources = await sourcesOf(home)
  const folder = join(cacheFolder(), `typescript-${await hashOf(home, sources)}`)
  if (await isThere(folder)) return folder
  const packages = await ensurePackages()
  return await made(folder, async (fresh) => {
    for (const path of sources) await cp(join(home, path), join(fresh, path))
    await symlink(packages, join(fresh, 'node_modules'))
    await outputOf(join(packages, '.bin/tsc'), ['-p', 'tsconfig.driver.json'], { cwd: fresh })
  })
}

/** What package-lock.json names. */
async function ensurePackages(): Promise<string> {
  const files = ['package.json', 'package-lock.json']
  const folder = join(cacheFolder(), `typescript-packages-${await hashOf(home, files)}`)
  if (await isThere(folder)) return join(folder, 'node_modules')
  await made(folder, async (fresh) => {
    for (const file of files) await cp(join(home, file), join(fresh, file))
    await outputOf('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: fresh })
  })
  return join(folder, 'node_modules')
}

/** Made beside it and renamed when whole: two that start at once do not meet, and a half one is never used. */
async function made(folder: string, make: (fresh: string) => Promise<void>): Promise<string> {
  await mkdir(cacheFolder(), { recursive: true })
  const fresh = await mkdtemp(`${folder}-`)
  try {
    await make(fresh)
    await rename(fresh, folder).catch(async (error: unknown) => {
      if (!(await isThere(folder))) throw error
    })
  } finally {
    await rm(fresh, { recursive: true, force: true })
  }
  return folder
}
