// Runs after `npm ci`, under whatever Node there is: makes node_modules/.bin/node the pinned one. npm 10, which comes with
// Node 20 and 22, links it and then unlinks it again, because the packages for other systems bring a program of that name.

const { existsSync, mkdirSync, rmSync, symlinkSync } = require('node:fs')
const { join } = require('node:path')

const modules = join(__dirname, '..', 'node_modules')
const names = [
  `node-${process.platform}-${process.arch}`,
  `node-bin-${process.platform}-${process.arch}`,
]
const found = names.find((name) => existsSync(join(modules, name, 'bin', 'node')))
if (found) {
  const link = join(modules, '.bin', 'node')
  mkdirSync(join(modules, '.bin'), { recursive: true })
  rmSync(link, { force: true })
  symlinkSync(join('..', found, 'bin', 'node'), link)
} else if (Number(process.versions.node.split('.')[0]) < 24) {
  console.error(
    'tollgate: there is no Node package for this system. Install Node 24 or later: https://nodejs.org',
  )
  process.exitCode = 1
}
