#!/usr/bin/env node
// `npm start`, `npm run tollgate` and the command `tollgate` run this file. It loads main.ts if this Node can read
// TypeScript. An older Node refuses a .ts file before it reads a line of it, so this file is JavaScript for any Node, and
// starts the one that `npm ci` has brought. The compile cache is switched on here, because Node then needs not load its
// TypeScript compiler (18 MB) even for main.ts.

const { spawn } = require('node:child_process')
const { lstatSync, mkdirSync, realpathSync } = require('node:fs')
const nodeModule = require('node:module')
const { tmpdir } = require('node:os')
const { join } = require('node:path')

const [major] = process.versions.node.split('.')
const brought = Number(major) >= 24 ? undefined : broughtNode()
if (Number(major) >= 24) {
  const folder = cacheFolder()
  if (folder) nodeModule.enableCompileCache(folder)
  void import('./main.ts')
} else if (brought) {
  runUnder(brought)
} else {
  console.error(
    `tollgate: this is Node ${process.versions.node}, and it takes 24 or later. ` +
      'Run `npm ci`, then `npm start` or `npm run -s tollgate -- COMMAND`: npm brings one along.',
  )
  process.exitCode = 1
}

/** The Node that `npm ci` has brought; undefined if there is none, or if this process runs it. */
function broughtNode() {
  try {
    const node = realpathSync(join(__dirname, '../node_modules/.bin/node'))
    return node === process.execPath ? undefined : node
  } catch {
    return undefined
  }
}

/** Ends as the other process ends. */
function runUnder(node) {
  const child = spawn(node, [__filename, ...process.argv.slice(2)], { stdio: 'inherit' })
  for (const signal of ['SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  // A terminal sends SIGINT to both processes. Sent on from here as well, it could count as a second one, and that ends
  // the gateway without waiting for streams.
  process.on('SIGINT', () => {})
  child.on('error', ({ message }) => {
    console.error(`tollgate: ${node} cannot be started: ${message}`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    if (signal) {
      process.removeAllListeners(signal)
      process.kill(process.pid, signal)
    } else process.exitCode = code
  })
}

/**
 * Node runs the code that it finds in this folder. So no other user of this machine may be able to write to it; the
 * folder that Node would choose does not ensure that.
 */
function cacheFolder() {
  const uid = process.getuid?.()
  const folder = process.env.NODE_COMPILE_CACHE ?? join(tmpdir(), `tollgate-cache-${uid}`)
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    const found = lstatSync(folder)
    const isOwn = found.isDirectory() && found.uid === uid && (found.mode & 0o022) === 0
    return isOwn ? folder : undefined
  } catch {
    return undefined
  }
}
