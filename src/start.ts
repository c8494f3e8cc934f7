// `tollgate start`: loads gateway.yaml, runs the gateway until it is told to stop, and drains.

import { exit } from './cli/command.ts'
import type { Io, Out } from './cli/command.ts'
import { version } from './cli/help.ts'
import { loadConfig } from './config/load.ts'
import { importPlugin } from './config/own-plugin.ts'
import { formatProblem } from './config/problem.ts'
import { ensureDemo } from './demo-account.ts'
import { plugins, secretsOf, startGateway } from './gateway.ts'
import type { RunningGateway } from './gateway.ts'
import { createLog } from './log.ts'
import type { Plugin } from './plugin.ts'

/** Resolves with the exit code, after the drain. */
export async function start(file: string, io: Io): Promise<number> {
  const ownPlugins: Plugin[] = []
  const loadPlugin = async (path: string) => {
    const plugin = await importPlugin(path)
    ownPlugins.push(plugin)
    return plugin
  }
  const loaded = await loadConfig(file, plugins, { env: io.env, loadPlugin })
  if ('problems' in loaded) {
    for (const problem of loaded.problems) io.stderr.write(`${formatProblem(problem)}\n`)
    return exit.configuration
  }
  const { config, effective } = loaded
  const { level, format = isTerminal(io.stdout) ? 'pretty' : 'json' } = config.log
  const log = createLog({ level, format, secrets: secretsOf(config) })
  try {
    const gateway = await startGateway(config, { effective, log, version: version(), ownPlugins })
    await greet(gateway, io.stdout)
    await aborted(io.signal)
    await gateway.close()
    return exit.ok
  } catch (error) {
    io.stderr.write(`tollgate: ${error instanceof Error ? error.message : String(error)}\n`)
    return exit.failed
  } finally {
    log.flush()
  }
}

function isTerminal(stream: Out): boolean {
  return 'isTTY' in stream && stream.isTTY === true
}

function aborted(signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) resolve()
    else signal?.addEventListener('abort', () => resolve(), { once: true })
  })
}

/** Where it listens; and on a machine of one's own, a key to try it with. */
async function greet(gateway: RunningGateway, stdout: Out): Promise<void> {
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
    curl ${url}/api/files/upload ${header} -F session_id=$(curl -s -X POST ${url}/api/chat/sessions ${header} | grep -o 'sess_[0-9a-f]*') -F file=@package.json

`
}
