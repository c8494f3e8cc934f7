#!/usr/bin/env node
// Takes argv and signals, and sets the exit code. cli/run.ts does the rest; `start` is the default command.

import { styleText } from 'node:util'

/** A terminal sends Ctrl-C to npm and to this process, and npm sends it on: what comes together is one signal. */
const togetherMs = 500
const stopping = new AbortController()
let firstAt: number | undefined
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.on(signal, () => {
    const now = performance.now()
    firstAt ??= now
    // An operator who sends the signal again does not want to wait for streams.
    if (now - firstAt > togetherMs) process.exit(1)
    stopping.abort()
  })
}

const argv = process.argv.slice(2)

// `tollgate help | head -1`: a reader that closes the pipe early is not an error. A running gateway only loses log
// lines then, and also when the disk is full.
for (const out of [process.stdout, process.stderr]) {
  out.on('error', (error: NodeJS.ErrnoException) => {
    // A command's error message may get lost, but its exit code must not.
    if (isStart || out === process.stderr) return
    // As at Ctrl-C, doctor first removes what it has written to the store.
    if (error.code === 'EPIPE' && argv[0] === 'doctor') return stopping.abort()
    // The code of these says whether the books are right, and that is not known now.
    const isVerdict = argv[0] === 'audit' || argv[0] === 'reconcile'
    if (error.code === 'EPIPE') process.exit(isVerdict ? 1 : 0)
    process.stderr.write(`tollgate: Nothing can be written: ${error.message}\n`)
    process.exit(1)
  })
}

const isStart = argv[0] === undefined || argv[0] === 'start' || argv[0].startsWith('--config')
// SIGHUP would end the process until start.ts listens for it. On a terminal it should.
if (isStart && !process.stdout.isTTY) process.on('SIGHUP', () => undefined)
const io = {
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  env: process.env,
  style: (colour: 'green' | 'yellow' | 'red', text: string) =>
    styleText(colour, text, { stream: process.stdout }),
  signal: stopping.signal,
  plugins: async () => (await import('./gateway.ts')).plugins,
}
const { run } = await import('./cli/run.ts')
process.exitCode = await run(isStart && argv[0] !== 'start' ? ['start', ...argv] : argv, io)
// All is closed and written. What a plugin or a provider of spans has left open must not keep the process alive.
if (isStart) process.exit()
