// `tollgate start`: loads gateway.yaml, runs the gateway until it is told to stop, and drains.

import { readFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { loadConfig } from './config/load.ts'
import { importPlugin } from './config/own-plugin.ts'
import { formatProblem } from './config/problem.ts'
import { ensureDemo } from './demo-account.ts'
import { plugins, secretsOf, startGateway } from './gateway.ts'
import type { RunningGateway } from './gateway.ts'
import { createLog } from './log.ts'
import type { Plugin } from './plugin.ts'

export interface StartIo {
  readonly stdout: NodeJS.WritableStream
  readonly stderr: NodeJS.WritableStream
  readonly env: NodeJS.ProcessEnv
  /** Fires when the gateway is to drain and stop. */
  readonly signal: AbortSignal
}

const wrongUse = 2
const badConfiguration = 78

const help = `Usage: tollgate start [OPTIONS]

Run the gateway; also without any command.

  --config FILE  the configuration; gateway.yaml where not given
  --help         this text
`

/** Resolves with the exit code, after the drain. */
export async function start(argv: readonly string[], io: StartIo): Promise<number> {
  const { file = 'gateway.yaml', needsHelp, wrong } = readArguments(argv)
  if (wrong !== undefined) {
    io.stderr.write(`tollgate: ${wrong}\n${help}`)
    return wrongUse
  }
  if (needsHelp) {
    io.stdout.write(help)
    return 0
  }
  const ownPlugins: Plugin[] = []
  const loadPlugin = async (path: string) => {
    const plugin = await importPlugin(path)
    ownPlugins.push(plugin)
    return plugin
  }
  const loaded = await loadConfig(file, plugins, { env: io.env, loadPlugin })
  if ('problems' in loaded) {
    for (const problem of loaded.problems) io.stderr.write(`${formatProblem(problem)}\n`)
    return badConfiguration
  }
  const { config, effective } = loaded
  const { level, format = isTerminal(io.stdout) ? 'pretty' : 'json' } = config.log
  const log = createLog({ level, format, secrets: secretsOf(config) })
  try {
    const version = await readVersion()
    const gateway = await startGateway(config, { effective, log, version, ownPlugins })
    await greet(gateway, io.stdout)
    await aborted(io.signal)
    await gateway.close()
    return 0
  } catch (error) {
    io.stderr.write(`tollgate: ${error instanceof Error ? error.message : String(error)}\n`)
    return 1
  } finally {
    log.flush()
  }
}

interface Arguments {
  readonly file?: string | undefined
  readonly needsHelp?: boolean | undefined
  readonly wrong?: string
}

function readArguments(argv: readonly string[]): Arguments {
  const options = {
    config: { type: 'string' },
    help: { type: 'boolean', short: 'h' },
  } as const
  try {
    const { values } = parseArgs({ args: [...argv], options })
    return { file: values.config, needsHelp: values.help }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    return { wrong: /^[^.\n]*/.exec(message)?.[0] ?? message }
  }
}

function isTerminal(stream: NodeJS.WritableStream): boolean {
  return 'isTTY' in stream && stream.isTTY === true
}

async function readVersion(): Promise<string> {
  const text = await readFile(new URL('../package.json', import.meta.url), 'utf8')
  const { version } = JSON.parse(text) as { version: string }
  return version
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    else signal.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Where it listens; and on a machine of one's own, a key to try it with. */
async function greet(gateway: RunningGateway, stdout: NodeJS.WritableStream): Promise<void> {
  const { public: front, admin } = gateway.doors
  const url = reachable(front.address)
  stdout.write(`tollgate: listening on ${url}, admin on ${reachable(admin.address)}\n`)
  const demo = await ensureDemo(gateway)
  if (demo) stdout.write(demoText({ ...demo, url, admin: admin.address }))
}

function reachable(address: string): string {
  return address.replace('//0.0.0.0:', '//localhost:').replace('//[::]:', '//localhost:')
}

interface DemoText {
  readonly key: string
  readonly model: string
  readonly url: string
  readonly admin: string
}

function demoText({ key, model, url, admin }: DemoText): string {
  const header = `-H 'Authorization: Bearer ${key}'`
  const body = JSON.stringify({
    model,
    stream: true,
    messages: [{ role: 'user', content: 'Hello!' }],
  })
  return `
  A demo account with 1,000,000 tokens was made. Its key, shown only now:

    ${key}

  API      ${url}/v1
  metrics  ${admin}/metrics

  Try it:

    curl -N ${url}/v1/chat ${header} -H 'Content-Type: application/json' -d '${body}'
    curl ${url}/api/billing/balance ${header}
    curl ${url}/v1/models ${header}

`
}
