#!/usr/bin/env node
// argv and signals in, exit code out. `start` runs the gateway; everything else is the command line's (cli/run.ts),
// which loads neither the gateway nor what it needs.

import { enableCompileCache } from 'node:module'

enableCompileCache()

const stopping = new AbortController()
let signals = 0
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    signals++
    // Whoever asks twice does not want to wait for streams.
    if (signals > 1) process.exit(1)
    stopping.abort()
  })
}

const argv = process.argv.slice(2)
const io = {
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  signal: stopping.signal,
}
const [command = 'start', ...rest] = argv
if (command === 'start' || command.startsWith('--config')) {
  const { start } = await import('./start.ts')
  process.exitCode = await start(command === 'start' ? rest : argv, io)
} else {
  const { run } = await import('./cli/run.ts')
  const plugins = async () => (await import('./gateway.ts')).plugins
  process.exitCode = await run(argv, { ...io, plugins })
}
