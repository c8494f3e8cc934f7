// `tollgate start`: loads gateway.yaml, runs the gateway until it is told to stop, and drains.

import { once } from 'node:events'
import { exit } from './cli/command.ts'
import type { Io, Out } from './cli/command.ts'
import { version } from './cli/help.ts'
import { loadConfig } from './config/load.ts'
import { importPlugin } from './config/own-plugin.ts'
import { formatProblem } from './config/problem.ts'
import { plugins, secretsOf, startGateway } from './gateway.ts'
import type { RunningGateway } from './gateway.ts'
import { newId } from './ids.ts'
import { createLog } from './log.ts'
import { plain, plainProblem } from './plain.ts'
import type { Gateway, Plugin } from './plugin.ts'

/** Resolves with the exit code after the drain. */
export async function start(file: string, io: Io): Promise<number> {
  const loaded = await load(file, io)
  if (loaded.problems) {
    for (const problem of loaded.problems) io.stderr.write(`${problem}\n`)
    return exit.configuration
  }
  const { config, effective, ownPlugins } = loaded
  const isShown = isTerminal(io.stdout)
  const { level, format = isShown ? 'pretty' : 'json' } = config.log
  const log = createLog({ level, format, secrets: secretsOf(config) })
  const hangUp = () => {
    log.warn({}, 'SIGHUP is ignored: restart the gateway to take up a changed configuration')
  }
  // On a terminal, SIGHUP is not caught: closing the terminal ends the gateway, like other programs.
  if (!isShown) process.on('SIGHUP', hangUp)
  try {
    const how = plain.size > 0 ? { plain: [...plain] } : {}
    log.info({ version: version(), node: process.versions.node, file, ...how }, 'starting')
    const gateway = await startGateway(config, { effective, log, version: version(), ownPlugins })
    // When stdout is not a terminal, only the log writes to it, in lines of JSON.
    await greet(gateway, file, isShown ? io.stdout : io.stderr)
    if (!io.signal?.aborted) await once(io.signal ?? new EventTarget(), 'abort')
    log.info({ drain_ms: config.drainMs }, 'draining')
    await gateway.close()
    log.info({}, 'stopped')
    return exit.ok
  } catch (error) {
    io.stderr.write(`tollgate: ${whyNot(error)}\n`)
    return exit.failed
  } finally {
    process.off('SIGHUP', hangUp)
    await log.close()
  }
}

async function load(file: string, { env }: Io) {
  const ownPlugins: Plugin[] = []
  const loadPlugin = async (path: string) => {
    const plugin = await importPlugin(path)
    ownPlugins.push(plugin)
    return plugin
  }
  const problem = plainProblem(env['TOLLGATE_PLAIN'])
  if (problem !== undefined) return { problems: [problem] }
  const loaded = await loadConfig(file, plugins, { env, loadPlugin })
  if ('problems' in loaded) return { problems: loaded.problems.map(formatProblem) }
  return { ...loaded, ownPlugins }
}

function whyNot(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const hint = 'code' in error && hints.get(error.code)
  return hint ? `${error.message}. ${hint}` : error.message
}

const hints: ReadonlyMap<unknown, string> = new Map([
  ['EADDRINUSE', 'Another program listens there: stop it, or set another port in gateway.yaml.'],
  ['ENOSPC', 'The disk of the data folder is full: make room on it.'],
])

function isTerminal(stream: Out): boolean {
  return 'isTTY' in stream && stream.isTTY === true
}

/** Prints where the gateway listens, and the key of the demo account if one was made, else how to make a key. */
async function greet(gateway: RunningGateway, file: string, out: Out): Promise<void> {
  const { public: front, admin } = gateway.listeners
  const url = reachable(front.address)
  gateway.log.info({ url, admin: reachable(admin.address) }, 'listening')
  out.write(`tollgate: listening on ${url}, admin on ${reachable(admin.address)}\n`)
  const demo = await ensureDemo(gateway)
  if (demo) out.write(demoText({ ...demo, url, admin: admin.address }))
  else out.write(keyText(file))
}

const demoTokens = 1_000_000

/**
 * Gives a person something to try after a first `npm start`: an account with tokens and a key. Only with the embedded
 * Redis, the demo model and no account yet: beside a real Redis a fresh container must not hand out money.
 */
export async function ensureDemo(
  gateway: Gateway,
): Promise<{ key: string; model: string } | undefined> {
  const { config, accounts, ledger } = gateway
  if (config.redis.kind !== 'embedded') return
  const model = [...config.models.values()].find(({ targets }) => targets[0]?.url === 'demo')
  if (!model) return
  const existing = await accounts.listAccounts({ limit: 1, order: 'asc' })
  if (existing.data.length > 0) return
  const { ref } = await accounts.createAccount({ name: 'demo' })
  const idempotencyId = newId('txn')
  await ledger.credit({ ref, idempotencyId, amount: demoTokens, type: 'topup', note: 'demo' })
  const { key } = await accounts.createKey(ref, { name: 'demo' })
  return { key, model: model.id }
}

function keyText(file: string): string {
  const config = file === 'gateway.yaml' ? '' : ` --config ${file}`
  return [
    'tollgate: make an account, or use one that exists, then make a key for it:',
    `  npm run -s tollgate -- accounts create NAME${config}`,
    `  npm run -s tollgate -- keys create --account NAME${config}\n`,
  ].join('\n')
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
