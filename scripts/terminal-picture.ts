// `npm run pictures:terminal`: docs/images/first-minute.svg, a recording of the first minute in a terminal: the README's
// commands, run in a fresh clone, with what they print and when. Waits are cut to a second. Needs `script` (util-linux), ports
// 8080 and 9090, and xterm, which is fetched from npm and knows what a terminal makes of the bytes.

import { execFile, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { on, once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { tempDir } from '../test/fixtures/temp-dir.ts'
import { npmPackage } from './cache.ts'
import { endOnSignals, withTeardown } from './ending.ts'
import { columns, drawScreen, rows } from './terminal-screen.ts'
import type { Output, Xterm } from './terminal-screen.ts'

const root = resolve(import.meta.dirname, '..')
const file = join(root, 'docs/images/first-minute.svg')
const xterm = '@xterm/headless@6.0.0'
const longestWaitMs = 1000
const typed = { chars: 4, ms: 70 }
const prompt = '\u001B[32m$\u001B[0m '
const origin = 'http://localhost:8080'
const bearer = '-H "Authorization: Bearer $KEY"'
const question =
  '{"model": "demo", "stream": true, "max_tokens": 5, "messages": [{"role": "user", "content": "Hi!"}]}'
const commands = [
  `curl -N ${origin}/v1/chat/completions ${bearer} -H 'Content-Type: application/json' -d '${question}'`,
  `curl ${origin}/api/billing/balance ${bearer}`,
  'npm run -s tollgate -- transactions demo',
]

/** What a terminal gets, each with the time since the one before. */
const recorded: Output[] = []

endOnSignals()
await withTeardown(async (t) => {
  const folder = await tempDir(t)
  await promisify(execFile)('git', ['clone', '--quiet', root, folder])
  const terminal = { cwd: folder, env: { ...process.env, KEY: '', NPM_CONFIG_PROGRESS: 'false' } }
  const start = 'npm ci && npm start'
  type(start)
  const server = run(start, terminal)
  t.teardown(() => end(server))
  terminal.env.KEY = await keyIn(server)
  // From here on, the other terminal is shown.
  server.stdout.removeAllListeners('data').resume()
  type(`KEY=${terminal.env.KEY}`, 'In another terminal:')
  for (const command of commands) {
    type(command)
    const [code] = await once(run(command, terminal), 'close')
    if (code !== 0) throw new Error(`${command}: exit code ${code}`)
    // curl's answers have no newline at their end, and a shell's prompt stands on a line of its own.
    note('\r\n')
  }
})
const module = join(await npmPackage(xterm), 'lib-headless/xterm-headless.mjs')
const svg = await drawScreen(recorded, (await import(module)) as Xterm)
await writeFile(file, svg)
console.log(`${file}: ${svg.length} bytes`)

function note(text: string, afterMs = 0): void {
  recorded.push({ text, afterMs })
}

function type(command: string, comment?: string): void {
  if (comment) note(`\r\n\u001B[2m# ${comment}\u001B[0m\r\n`, longestWaitMs)
  note(prompt, longestWaitMs)
  for (const [some] of command.matchAll(new RegExp(`.{1,${typed.chars}}`, 'g')))
    note(some, typed.ms)
  note('\r\n', 300)
}

function run(command: string, options: { readonly cwd: string; readonly env: NodeJS.ProcessEnv }) {
  const words = ['-qfec', `stty cols ${columns} rows ${rows}; ${command}`, '/dev/null']
  const child = spawn('script', words, { ...options, stdio: ['ignore', 'pipe', 'inherit'] })
  let lastMs = performance.now()
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const nowMs = performance.now()
    note(text, Math.min(longestWaitMs, nowMs - lastMs))
    lastMs = nowMs
  })
  return child
}

/** Resolves with the key that the first start prints, when it has said all. */
async function keyIn({ stdout }: ReturnType<typeof run>): Promise<string> {
  let text = ''
  for await (const [piece] of on(stdout, 'data', { close: ['close'] })) {
    text += piece
    const key = /tg_live_\w+/.exec(text)?.[0]
    if (key && / listening /.test(text) && /Try it:[^]*\n\s*\n/.test(text)) return key
  }
  throw new Error(`The gateway did not start: ${text}`)
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return
  const closed = once(child, 'close')
  child.kill()
  await closed
}
