// Run by npm where the package is installed from this folder, or packed: builds `dist`. npm links a folder without what it
// needs to be built, so that is installed first.

import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'

const compiler = 'node_modules/typescript/bin/tsc'
const run = (...words) => execFileSync(process.execPath, words, { stdio: 'inherit' })

if (!existsSync(compiler)) {
  const npm = process.env.npm_execpath
  if (!npm) throw new Error('Run this by npm: npm run prepare')
  // This folder's, whatever npm was asked to install into.
  run(npm, 'ci', '--prefix', '.', '--no-global', '--include=dev', '--ignore-scripts')
}
run(compiler, '-p', 'tsconfig.build.json')
