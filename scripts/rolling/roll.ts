// One load balancer, three gateways on one Redis, and customers. Each gateway is told to stop, drains, and is started
// again; then all of them reload each second. At the end all books are compared: what the backend has answered is charged to
// the token. What it served for answers that were cut, because a drain was over first, is told apart (docs/money.md).

import { randomBytes } from 'node:crypto'
import { cpus } from 'node:os'
import { lastingPort } from '../../test/fixtures/free-port.ts'
import { spawnGateway } from '../../test/fixtures/gateway.ts'
import type { Account, OwnProcess } from '../../test/fixtures/gateway.ts'
import { balanceOf, differencesOf } from '../../test/fixtures/money.ts'
import { startRedis } from '../../test/fixtures/redis-server.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import { entriesOf } from '../chaos/verify.ts'
import { modelsYaml } from '../thieves/models.ts'
import { startWorker } from '../worker.ts'
import type { ServedOrder, ServedReport } from './backend.ts'
import { startLoad } from './load.ts'
import { reloadEachSecond } from './reload.ts'
import { startProxy } from './proxy.ts'
import type { ProxyName, Upstream } from './proxy.ts'

export interface RollOptions {
  readonly streams: number
  readonly streamSeconds: number
  readonly rate: number
  /** How often each gateway is restarted. */
  readonly rounds: number
  /** How often all gateways reload, one second after the other. */
  readonly reloads: number
}

const gatewayCount = 3
const accountCount = 20
const tokens = 1_000_000_000

/** `reloadMs` is of one gateway: the middle and the longest. */
export async function roll(
  t: Teardown,
  name: ProxyName,
  { rounds, reloads, ...wanted }: RollOptions,
) {
  const backend = await startWorker<ServedOrder, ServedReport>(
    t,
    new URL('backend.ts', import.meta.url),
  )
  const redis = await startRedis(t)
  const yaml = (time: number) => yamlFor(backend.address, time)
  const upstreams = await Promise.all(Array.from({ length: gatewayCount }, () => somePlace(t)))
  // A gateway comes back to its data folder, and so to what it could not send to Redis.
  const spawn = (place: Place) => spawnGateway(t, { yaml: yaml(0), redis, ...place })
  const gateways = await Promise.all(upstreams.map(spawn))
  const accounts = await accountsOf(firstOf(gateways))
  const url = await startProxy(t, name, { upstreams })
  const trace = randomBytes(16).toString('hex')
  const startedAt = performance.now()
  const before = machineMs()
  const load = startLoad({ ...wanted, url, keys: accounts.map(({ key }) => key), trace })
  t.teardown(load.stop)
  const exits = await restartAll(gateways, { rounds, start: spawn, places: upstreams })
  const reloaded = await reloadEachSecond(gateways, { times: reloads, yaml })
  const aSecond = Math.round((1000 * load.tally.requests) / (performance.now() - startedAt))
  const after = machineMs()
  await load.stop()
  const served = await backend.order({ trace })
  const witness = firstOf(gateways)
  const books = await booksOf(witness, accounts)
  const { reserved, owed, spent } = books
  const { tally } = load
  const faults = [
    ...[...tally.failed].map(([what, times]) => `${times} × ${what}`),
    ...reloaded.faults,
    ...(exits.every((code) => code === 0) ? [] : [`exit codes ${exits.join(' ')}`]),
    ...faultsOf(books, served),
    ...(reserved === 0 && owed === 0 ? [] : [`${reserved} held, ${owed} owed`]),
    ...(await differencesOf(witness)).map((one) => JSON.stringify(one)),
  ]
  const { streams, requests } = tally
  const busy = (after.busy - before.busy) / (after.all - before.all)
  const machine = `${Math.round(100 * busy)} % busy`
  const done = { restarts: exits.length, reloads: reloaded.count, streams, requests, aSecond }
  const { cost, cut } = served
  const seen = { machine, ...done, charged: spent, served: cost, cut, estimated: books.estimated }
  return { faults, seen, reloadMs: reloaded.ms }
}

interface Restarting {
  readonly rounds: number
  readonly places: readonly Place[]
  start(place: Place): Promise<OwnProcess>
}

/** One after the other. Resolves with their exit codes. */
async function restartAll(gateways: OwnProcess[], { rounds, places, start }: Restarting) {
  const exits: (number | null)[] = []
  for (let round = 0; round < rounds; round++) {
    for (const [at, place] of places.entries()) {
      exits.push((await gateways[at]?.stop()) ?? null)
      gateways[at] = await start(place)
    }
  }
  return exits
}

interface Place extends Upstream {
  readonly dataDir: string
}

async function somePlace(t: Teardown): Promise<Place> {
  return { port: await lastingPort(), adminPort: await lastingPort(), dataDir: await tempDir(t) }
}

const yamlFor = (backendUrl: string, time: number): string => `${modelsYaml(backendUrl)}
plans:
  default: { requests_per_minute: 1000000, tokens_per_minute: 1000000000, concurrency: ${100_000 + time} }
limits: { heartbeat: ${15 + (time % 10)}s }
reload: signal
shutdown_delay: 3s
log: { level: error, format: json }
`

function firstOf([gateway]: readonly OwnProcess[]): OwnProcess {
  if (!gateway) throw new Error('There is no gateway')
  return gateway
}

function accountsOf(gateway: OwnProcess): Promise<readonly Account[]> {
  return Promise.all(Array.from({ length: accountCount }, () => gateway.account(tokens)))
}

async function booksOf(gateway: OwnProcess, accounts: readonly Account[]) {
  const all = await Promise.all(accounts.map((account) => balanceOf(gateway, account)))
  const entries = await Promise.all(accounts.map((account) => entriesOf(gateway, account)))
  const charges = entries.flat().filter(({ type }) => type === 'charge')
  const estimates = charges.filter(({ estimated }) => estimated)
  return {
    estimated: sum(estimates.map(({ amount }) => -amount)),
    spent: sum(all.map(({ balance }) => tokens - balance)),
    reserved: sum(all.map(({ reserved }) => reserved)),
    owed: sum(all.map(({ owed }) => owed)),
  }
}

type Books = Awaited<ReturnType<typeof booksOf>>

/** Tokens that a backend had sent, and no gateway had read, when a stream was cut: three pieces of ten, as load.ts asks for. */
const underWay = 3 * 10

/** An answer that is not streamed and was cut is free; where usage was not reported, a count is charged; all else to the token. */
function faultsOf({ spent, estimated }: Books, { cost, cut }: ServedReport): readonly string[] {
  const { whole, streamed } = cut
  const answered = cost - whole.cost
  const room = 0.1 * estimated + underWay * streamed.answers
  if (Math.abs(spent - answered) <= room) return []
  return [`charged ${spent}, the backend served ${answered} besides ${whole.cost} for cut answers`]
}

/** CPU time of all cores: where hardly any is idle, answers outlast `drain`. */
function machineMs() {
  const times = cpus().map(({ times }) => times)
  const all = sum(times.flatMap((one) => Object.values(one)))
  return { all, busy: all - sum(times.map(({ idle }) => idle)) }
}

const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)
