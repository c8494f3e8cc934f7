// `tollgate start`: loads gateway.yaml, runs the gateway until it is told to stop, and drains.

import { once } from 'node:events'
import { exit } from './cli/command.ts'
import type { Io, Out } from './cli/command.ts'
import { version } from './cli/help.ts'
import { cleanLines } from './cli/table.ts'
import { formatProblem } from './config/problem.ts'
import type { FileDigests } from './config/read-files.ts'
import { watchFiles } from './config/watch.ts'
import { startGateway } from './gateway.ts'
import type { GatewayOptions, RunningGateway } from './gateway.ts'
import type { Supervisor, SupervisorOptions } from './supervisor.ts'
import { taskVariable } from './workers/channel.ts'
import type { Config } from './config/config.ts'
import { codeOf, messageOf } from './errors.ts'
import { newId } from './ids.ts'
import { loadFile } from './load-file.ts'
import { createLog } from './log.ts'
import { plain, plainProblem } from './plain.ts'
import type { Gateway } from './plugin.ts'
import { secretsOf } from './secrets.ts'
import { collectStartGarbage } from './start-garbage.ts'

/** Loaded only where there are workers. */
async function supervise(config: Config, options: SupervisorOptions): Promise<Supervisor> {
  const { startSupervisor } = await import('./supervisor.ts')
  return await startSupervisor(config, options)
}

function startAlone(config: Config, options: GatewayOptions): Promise<RunningGateway> {
  collectStartGarbage()
  return startGateway(config, options)
}

/** Resolves with the exit code after the drain. */
export async function start(file: string, io: Io): Promise<number> {
  if (io.env[taskVariable] !== undefined) return (await import('./worker.ts')).runWorker(io)
  const problem = plainProblem(io.env['TOLLGATE_PLAIN'])
  if (problem !== undefined) return refuse([problem], io)
  const loaded = await loadFile(file, io)
  if ('problems' in loaded) return refuse(loaded.problems.map(formatProblem), io)
  const { config } = loaded
  const isShown = io.stdout.isTTY === true
  const { level, format = isShown ? 'pretty' : 'json' } = config.log
  const log = createLog({ level, format, secrets: secretsOf(config) })
  await using keeping = new AsyncDisposableStack()
  keeping.defer(() => log.close())
  const reload = keepUp({ isShown, keeping })
  try {
    const how = plain.size > 0 ? { plain: [...plain] } : {}
    log.info({ version: version(), node: process.versions.node, file, ...how }, 'starting')
    let { files } = loaded
    const again = async () => {
      const next = await loadFile(file, io, { running: config.workers })
      files = next.files
      return next
    }
    const options = { ...loaded, log, version: version(), load: again }
    const gateway =
      config.workers > 1
        ? await supervise(config, { ...options, file, format })
        : await startAlone(config, options)
    reload.from(gateway, () => files)
    // When stdout is not a terminal, only the log writes to it, in lines of JSON.
    await greet(gateway, file, isShown ? io.stdout : io.stderr)
    if (!io.signal?.aborted) await once(io.signal ?? new EventTarget(), 'abort')
    log.info({ drain_ms: gateway.current.config.drainMs }, 'draining')
    await gateway.close()
    log.info({}, 'stopped')
    return exit.ok
  } catch (error) {
    io.stderr.write(`tollgate: ${log.masked(whyNot(error))}\n`)
    return exit.failed
  }
}

function refuse(problems: readonly string[], io: Io): number {
  for (const problem of problems) io.stderr.write(`${cleanLines(problem)}\n`)
  return exit.configuration
}

interface KeepingUp {
  readonly isShown: boolean
  readonly keeping: AsyncDisposableStack
}

/** Reloads on SIGHUP, and when a file has changed. While the gateway starts and stops, SIGHUP does nothing. */
function keepUp({ isShown, keeping }: KeepingUp) {
  let running: RunningGateway | undefined
  // What fails is in the log.
  const reload = async (cause: string) => running?.reload(cause).catch(() => undefined)
  const hangUp = () => void reload('SIGHUP')
  // On a terminal, SIGHUP is not caught: closing the terminal ends the gateway, like other programs.
  if (!isShown) process.on('SIGHUP', hangUp)
  keeping.defer(() => void process.off('SIGHUP', hangUp))
  return {
    from(gateway: RunningGateway, files: () => FileDigests) {
      running = gateway
      const isOn = () => {
        const { config, state } = gateway.current
        return config.reload === 'watch' && !state.draining
      }
      const watch = watchFiles({ files, isOn, onChange: () => reload('a file has changed') })
      keeping.defer(() => watch.stop())
    },
  }
}

function whyNot(error: unknown): string {
  const hint = hints.get(codeOf(error))
  return hint ? `${messageOf(error)}. ${hint}` : messageOf(error)
}

const hints: ReadonlyMap<string, string> = new Map([
  ['EADDRINUSE', 'Another program listens there: stop it, or set another port in gateway.yaml.'],
  ['ENOSPC', 'The disk of the data folder is full: make room on it.'],
])

/** Prints where the gateway listens, and the key of the demo account if one was made, else how to make a key. */
async function greet(gateway: RunningGateway | Supervisor, file: string, out: Out): Promise<void> {
  const { admin } = gateway.listeners
  const url = reachable(
    'publicAddress' in gateway ? gateway.publicAddress : gateway.listeners.public.address,
  )
  gateway.log.info({ url, admin: reachable(admin.address) }, 'listening')
  out.write(`tollgate: listening on ${url}, admin on ${reachable(admin.address)}\n`)
  const demo = await ensureDemo(gateway)
  const { plugins } = gateway.config
  if (demo) out.write(demoText({ ...demo, url, admin: admin.address, plugins }))
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
    'tollgate: make an account with tokens, or use one that exists, then make a key for it:',
    `  npm run -s tollgate -- accounts create NAME${config}`,
    `  npm run -s tollgate -- topup NAME 1000000${config}`,
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
  readonly plugins: ReadonlyMap<string, unknown>
}

function demoText({ key, model, url, admin, plugins }: DemoText): string {
  const header = `-H 'Authorization: Bearer ${key}'`
  const body = JSON.stringify({
    model,
    stream: true,
    messages: [{ role: 'user', content: 'Hello!' }],
  })
  const pages = [
    plugins.has('docs') && `  docs     ${url}/docs\n`,
    plugins.has('account') &&
      '  account  npm run -s tollgate -- portal demo (prints a link to its page)\n',
  ]
  return `
  A demo account with 1,000,000 tokens was made. Its key, shown only now:

    ${key}

  API      ${url}/v1
${pages.filter(Boolean).join('')}  metrics  ${admin}/metrics

  Try it:

    curl -N ${url}/v1/chat ${header} -H 'Content-Type: application/json' -d '${body}'
    curl ${url}/api/billing/balance ${header}
    curl ${url}/api/files/upload ${header} -F session_id=$(curl -s -X POST ${url}/api/chat/sessions ${header} | grep -o 'sess_[0-9a-f]*') -F file=@package.json

`
}
