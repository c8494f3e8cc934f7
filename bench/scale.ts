// `npm run bench:scale`: what grows with the number of accounts, and what does not. Fills a Redis through the gateway's own
// scripts (fill.ts) with 10,000 accounts and then 100,000, with `--long` also a million, and measures at each size what a
// request costs, lists and look-ups, the audit, the upkeep, a start, memory, and the longest time that Redis was held up.
// Writes bench/scale.md; with `--accounts 500,1000` it proves that it works, and writes nothing.

import { writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { createArchive } from '../src/ledger/archive.ts'
import { createDebtors } from '../src/ledger/debtors.ts'
import { ledgerScripts } from '../src/ledger/library.ts'
import { refsInGroups } from '../src/ledger/walk.ts'
import { keys } from '../src/redis/keys.ts'
import { connect } from '../src/redis/connect.ts'
import { createScripts } from '../src/redis/scripts.ts'
import { diskStore } from '../src/store/disk.ts'
import { admin, startTollgate } from './contestants.ts'
import type { Tollgate } from './contestants.ts'
import { fill } from './fill.ts'
import type { Filled } from './fill.ts'
import { folder, run, say, startBench } from './ground.ts'
import { requestCost } from './measures.ts'
import { cpuSeconds, rssBytes } from './processes.ts'

const { values: flags } = parseArgs({
  options: { accounts: { type: 'string' }, long: { type: 'boolean', default: false } },
})
const usual = flags.long ? '10000,100000,1000000' : '10000,100000'
const sizes = (flags.accounts ?? usual).split(',').map(Number)

/** A gateway keeps the settlements of its last 30 s, and sends them again at its next start: those of the load before are no part of a start. */
const forgetMs = 35_000
/** The longest reply (a dump of a list) takes seconds. */
const commandTimeoutMs = 600_000
const { bench, backendPort } = await startBench()
const { redis } = bench
const empty = await redis.bytes()
const link = await connect(
  { kind: 'single', host: '', port: 0, path: redis.socket, db: 0 },
  { commandTimeoutMs },
)
const { client } = link

/** By the row's name, a cell for each size. */
const rows = new Map<string, string[]>()

function tell(name: string, cell: string): void {
  rows.set(name, [...(rows.get(name) ?? []), cell])
  say(`${name}: ${cell}`)
}

interface Cost {
  /** Of the processes that work, and of Redis. */
  readonly cpuMicros: number
  readonly redisMicros: number
  /** The longest command of Redis. */
  readonly longestMs: number
}

async function costOf(pids: readonly number[], work: () => Promise<unknown>): Promise<Cost> {
  await client.slowlog('RESET')
  const read = () => [cpuSeconds(pids), cpuSeconds([redis.pid])] as const
  const [cpu, redisCpu] = read()
  await work()
  const [cpuAfter, redisAfter] = read()
  const entries = (await client.slowlog('GET', 1000)) as [number, number, number][]
  const longest = Math.max(0, ...entries.map(([, , micros]) => micros))
  const spent = { cpuMicros: (cpuAfter - cpu) * 1e6, redisMicros: (redisAfter - redisCpu) * 1e6 }
  return { ...spent, longestMs: longest / 1000 }
}

/** The mean of many calls: on a busy machine, the time that one of them takes says nothing. */
const calls = 200

async function mean(
  name: string,
  gateway: Tollgate,
  call: (n: number) => Promise<unknown>,
): Promise<void> {
  await call(calls)
  const all = async () => {
    for (let n = 0; n < calls; n++) await call(n)
  }
  const { cpuMicros, redisMicros } = await costOf(gateway.pids(), all)
  tell(`${name}, µs: gateway, Redis`, perOne(cpuMicros / calls, redisMicros / calls))
}

const perOne = (...micros: readonly number[]) => micros.map((one) => one.toFixed(0)).join(', ')

async function measureLists(gateway: Tollgate, some: readonly Filled[]): Promise<void> {
  const ask = (what: string, body?: object) => admin<{ id: string }>(gateway, what, body)
  const one = (n: number) => some[n % some.length] ?? { id: '', name: '', externalId: '', key: '' }
  const text = encodeURIComponent
  await mean('the first page of accounts', gateway, () => ask('accounts?limit=100'))
  await mean('a page behind any account', gateway, (n) =>
    ask(`accounts?limit=100&after=${one(n).id}`),
  )
  await mean('an account by its id', gateway, (n) => ask(`accounts/${one(n).id}`))
  await mean('by its name', gateway, (n) => ask(`accounts?name=${text(one(n).name)}`))
  await mean('by its external id', gateway, (n) => ask(`accounts?external_id=${one(n).externalId}`))
  await mean('by a key', gateway, (n) => ask('keys/find', { key: one(n).key }))
  await mean('a top-up', gateway, (n) => ask(`accounts/${one(n).id}/topup`, { amount: 1 }))
  const stamp = `${Date.now()}`
  await mean('a new account with a key', gateway, async (n) => {
    const { id } = await ask('accounts', { name: `${stamp} ${n}`, external_id: `${stamp}-${n}` })
    await ask(`accounts/${id}/keys`, {})
  })
}

async function measureAudit(gateway: Tollgate): Promise<void> {
  let end = { accounts: 0, entries: 0, difference_count: 0 }
  const cost = await costOf(gateway.pids(), async () => {
    const url = `http://127.0.0.1:${gateway.adminPort}/admin/audit?format=ndjson`
    const answer = await fetch(url, { headers: { authorization: `Bearer ${gateway.adminToken}` } })
    end = JSON.parse((await answer.text()).trimEnd().split('\n').at(-1) ?? '')
  })
  const { accounts, difference_count } = end
  if (!(accounts > 0 && difference_count === 0)) throw new Error(JSON.stringify(end))
  const [own, redisOwn] = [cost.cpuMicros / accounts, cost.redisMicros / accounts]
  tell('the audit, µs an account: gateway, Redis', perOne(own, redisOwn))
  tell('the audit, accounts a second of CPU', (1e6 / own).toFixed(0))
}

async function measureUpkeep(count: number): Promise<void> {
  const scripts = createScripts({ link, library: ledgerScripts })
  const archive = createArchive({ redis: client, scripts, store: diskStore(join(folder, 'store')) })
  const shown = async (name: string, work: () => Promise<unknown>) => {
    const { cpuMicros, redisMicros } = await costOf([process.pid], work)
    tell(`${name}, µs an account: own, Redis`, perOne(cpuMicros / count, redisMicros / count))
  }
  await shown('each hour: who owes something', () => createDebtors(client).findAll())
  await shown('each hour: what goes to the archive', async () => {
    for await (const refs of refsInGroups(client, 8))
      await Promise.all(refs.map((ref) => archive.archive(ref, 1)))
  })
}

/** What a Cluster does with a list when its slot moves: it is written out in one piece and read in one piece. */
async function measureMove(): Promise<void> {
  for (const key of [keys.accounts, keys.nameOwners]) {
    const { longestMs } = await costOf([], async () => {
      const dump = await client.dumpBuffer(key)
      if (dump) await client.restore('moved', 0, dump)
      await client.unlink('moved')
    })
    tell(`moving the slot of \`${key}\`, ms`, longestMs.toFixed(0))
  }
}

const lists = [keys.accounts, keys.accountNames, keys.nameOwners, keys.keyIds]

async function measureMemory(count: number): Promise<void> {
  tell('Redis, bytes an account', (((await redis.bytes()) - empty) / count).toFixed(0))
  const found = await Promise.all(lists.map((key) => client.memory('USAGE', key)))
  const bytes = found.reduce((sum: number, one) => sum + Number(one), 0)
  tell('of these, in lists of all accounts', (bytes / count).toFixed(0))
}

async function measureStart(gateway: Tollgate): Promise<void> {
  const { longestMs } = await costOf([], () => gateway.restart())
  tell('a start, ms of CPU', (cpuSeconds(gateway.pids()) * 1000).toFixed(0))
  tell('the longest command of a start, ms', longestMs.toFixed(1))
  tell('the gateway after it, MB', megabytes(rssBytes(gateway.pids())))
}

const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0)
const [warmUpMs, requestMs] = [8000, 6000]

/** Behind its start, a gateway sums the balances of all accounts. */
async function hasSums({ adminPort }: Tollgate): Promise<boolean> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
  return /^tollgate_accounts_low \d/m.test(text)
}

async function measureRequests(gateway: Tollgate, some: readonly Filled[]): Promise<void> {
  const beganAt = performance.now()
  const headers = some.map(({ key }) => `Authorization: Bearer ${key}\r\n`)
  const aimed = { ...gateway, aim: { ...gateway.aim, headers } }
  const measured = async () => {
    const cost = await requestCost(bench, aimed, { ms: requestMs })
    return perOne(cost.cpuMicros, cost.redisMicros)
  }
  await requestCost(bench, aimed, { ms: warmUpMs })
  const during = await measured()
  const isDuring = !(await hasSums(gateway))
  tell(
    'a request while balances are summed, µs: gateway, Redis',
    isDuring ? during : 'sums were there',
  )
  while (!(await hasSums(gateway))) await wait(500)
  tell('until they are summed, s', ((performance.now() - beganAt) / 1000).toFixed(0))
  tell('a request, µs: gateway, Redis', await measured())
}

async function measure(gateway: Tollgate, count: number, some: readonly Filled[]): Promise<void> {
  await measureMemory(count)
  await measureStart(gateway)
  await measureRequests(gateway, some)
  await measureLists(gateway, some)
  await measureAudit(gateway)
  tell('the gateway after all this, MB', megabytes(rssBytes(gateway.pids())))
  await measureUpkeep(count)
  await measureMove()
  tell('load of the machine', loadavg()[0]?.toFixed(0) ?? '')
}

async function main(): Promise<void> {
  await client.config('SET', 'slowlog-log-slower-than', 1000, 'slowlog-max-len', 1000)
  const gateway = await startTollgate({ folder, backendPort, files: 1024 }, redis)
  let from = 0
  for (const size of sizes) {
    await gateway.stop()
    const some = await fill(link, { from, to: size, folder })
    from = size
    await gateway.restart()
    await wait(forgetMs)
    await measure(gateway, size, some)
  }
  await link.close()
  const titles = sizes.map((size) => size.toLocaleString('en'))
  const lines = [...rows].map(([name, cells]) => `| ${name} | ${cells.join(' | ')} |`)
  const table = [
    `| accounts | ${titles.join(' | ')} |`,
    `|---|${sizes.map(() => '---:|').join('')}`,
    ...lines,
  ].join('\n')
  const report = `${head}\n\n${table}\n`
  process.stdout.write(report)
  if (flags.accounts === undefined) writeFileSync(join(import.meta.dirname, 'scale.md'), report)
}

const head = `# What grows with the number of accounts

By \`npm run bench:scale${flags.accounts ? ` -- --accounts ${flags.accounts}` : ''}\`, Redis ${redis.version} with an append-only file. Each account has a name, an external id, a key, a top-up and
a charge, all made by the gateway's own scripts. Times are CPU of the gateway and of Redis, since the machine may be busy;
look-ups are means of ${calls} calls over the admin API, each on a connection that is kept. A load far above the number of
cores makes all of them longer: compare the columns, not the microseconds of two runs.`

await run(main)
