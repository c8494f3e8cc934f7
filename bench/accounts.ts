// `npm run bench:accounts`: what the lists of all accounts cost when there are a million of them. Fills a Redis past the
// gateway, then asks the gateway for all that touches the lists, and does what its upkeep does. For each: how long it
// takes, the longest time that a command held up Redis, and the longest time that the gateway's event loop stood still.
// Writes bench/accounts.md; with `--accounts 10000` it proves that it works, and writes nothing.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { newAccountSeed } from '../src/accounts/accounts.ts'
import { ownerFields } from '../src/accounts/account-names.ts'
import { newId } from '../src/ids.ts'
import { createArchive } from '../src/ledger/archive.ts'
import { audit } from '../src/ledger/audit.ts'
import { refsInGroups } from '../src/ledger/walk.ts'
import { createDebtors } from '../src/ledger/debtors.ts'
import { ledgerScripts } from '../src/ledger/library.ts'
import { keys } from '../src/redis/keys.ts'
import { connect } from '../src/redis/connect.ts'
import type { RedisLink } from '../src/redis/connect.ts'
import { createScripts } from '../src/redis/scripts.ts'
import { diskStore } from '../src/store/disk.ts'
import { admin, startTollgate } from './contestants.ts'
import type { Tollgate } from './contestants.ts'
import { folder, run, say } from './ground.ts'
import { rssBytes } from './processes.ts'
import { startRedis } from './redis.ts'

const million = 1_000_000
const { values: flags } = parseArgs({
  options: { accounts: { type: 'string', default: String(million) } },
})
const count = Number(flags.accounts)

/** The longest reply (a dump of a list) takes seconds. */
const commandTimeoutMs = 600_000
const redis = await startRedis(folder)
const empty = await redis.bytes()
const link = await connect(
  { kind: 'single', host: '', port: 0, path: redis.socket, db: 0 },
  { commandTimeoutMs },
)
const { client } = link

interface Filled {
  readonly id: string
  readonly name: string
}

const atOnce = 500

/** Each with a key, a name, an external id and a top-up. Returns the accounts at which lists are cut. */
async function fill(): Promise<readonly Filled[]> {
  const some: Filled[] = []
  for (let from = 0; from < count; from += atOnce) {
    const batch = client.pipeline()
    for (let i = from; i < Math.min(count, from + atOnce); i++) {
      const one = add(batch, i)
      if (i % Math.ceil(count / 10) === 0) some.push(one)
    }
    for (const [error] of (await batch.exec()) ?? []) if (error) throw error
    if (from % 100_000 === 0) say(`${from} accounts`)
  }
  return some
}

function add(batch: ReturnType<typeof client.pipeline>, i: number): Filled {
  const { id, ref, createdAt } = newAccountSeed()
  const [name, external] = [`customer ${i}`, `crm-${i}`]
  const row = { id, name, plan: 'default', status: 'active', created_at: createdAt }
  batch.hset(keys.account(ref), { ...row, external_id: external, granted: 1000, spent: 0 })
  batch.zadd(keys.accounts, 0, `${id}:${ref}`)
  batch.zadd(keys.accountNames, 0, `${name}\0${id}`)
  batch.hset(keys.nameOwners, ownerFields.name(name), id, ownerFields.external_id(external), id)
  batch.xadd(keys.journal(ref), '*', 'type', 'topup', 'amount', 1000, 'balance', 1000, 'meta', '{}')
  const key = newId('key')
  const hmac = `${ref}${ref}${ref}${ref}`.slice(0, 43)
  const hint = { hint: 'tg_live_…abcd', scopes: 'chat billing', models: '*', name: '' }
  batch.hset(keys.key(ref, hmac), { id: key, created_at: createdAt, ...hint })
  batch.hset(keys.keyList(ref), key, hmac)
  batch.hset(keys.keyIds, key, ref)
  return { id, name }
}

interface Cost {
  readonly what: string
  readonly seconds: number
  /** The longest command, in ms, and its name. */
  readonly longest: readonly [number, string]
  readonly loopMs: number
}

/** Of the process that works: the gateway's or this one's. */
interface Loop {
  /** The longest time since the last call, in ms. */
  read(): Promise<number>
}

const costs: Cost[] = []

async function measure<T>(what: string, loop: Loop, work: () => Promise<T>): Promise<T> {
  await client.slowlog('RESET')
  await loop.read()
  const begun = performance.now()
  const result = await work()
  const seconds = (performance.now() - begun) / 1000
  const cost = { what, seconds, longest: await longestCommand(), loopMs: await loop.read() }
  costs.push(cost)
  say(rowOf(cost))
  return result
}

/** The log of slow commands keeps the newest thousand: an audit has millions of short ones. */
const shownFromMs = 1

async function longestCommand(): Promise<readonly [number, string]> {
  const entries = (await client.slowlog('GET', 1000)) as [number, number, number, string[]][]
  const sorted = entries.toSorted((a, b) => b[2] - a[2])
  const [, , micros = 0, words = []] = sorted[0] ?? []
  return [micros / 1000, words[0]?.toUpperCase() ?? '']
}

/** How often the delay of a loop is sampled, which each sample contains. */
const sampleMs = 10

function loopOf({ adminPort }: Tollgate): Loop {
  return {
    async read() {
      const page = await (await fetch(`http://127.0.0.1:${adminPort}/metrics`)).text()
      const seconds = /^nodejs_eventloop_lag_max_seconds (\S+)/m.exec(page)?.[1]
      return Math.max(0, Number(seconds) * 1000 - sampleMs)
    },
  }
}

/** By the CPU that this thread has used between two turns: on a busy machine, it also stands still for other reasons. */
function ownLoop(): Loop {
  const used = () => {
    const { user, system } = process.threadCpuUsage()
    return (user + system) / 1000
  }
  let longest = 0
  let last = used()
  const look = () => {
    const now = used()
    longest = Math.max(longest, now - last)
    last = now
  }
  setInterval(look, 1).unref()
  return {
    async read() {
      const ms = longest
      longest = 0
      return ms
    },
  }
}

async function measureGateway(gateway: Tollgate, some: readonly Filled[]): Promise<void> {
  const loop = loopOf(gateway)
  const list = (what: string) => admin<{ data: { id: string }[] }>(gateway, what)
  const middle = some[Math.floor(some.length / 2)] ?? { id: '', name: '' }
  await measure('the first page of accounts (100)', loop, () => list('accounts?limit=100'))
  await measure('a page from the middle', loop, () => list(`accounts?limit=100&after=${middle.id}`))
  await measure('an account by its id', loop, () => list(`accounts/${middle.id}`))
  await measure('by its name', loop, () => list(`accounts?name=${encodeURIComponent(middle.name)}`))
  await measure('by its external id', loop, () => list(`accounts?external_id=crm-${count - 1}`))
  const { id } = await measure('a new account', loop, () =>
    admin<{ id: string }>(gateway, 'accounts', { name: 'new', external_id: 'new' }),
  )
  await measure('a new key', loop, () => admin(gateway, `accounts/${id}/keys`, {}))
  await measure('a top-up', loop, () => admin(gateway, `accounts/${id}/topup`, { amount: 5 }))
}

async function measureUpkeep({ client }: RedisLink): Promise<void> {
  const loop = ownLoop()
  const scripts = createScripts({ link, library: ledgerScripts })
  const archive = createArchive({ redis: client, scripts, store: diskStore(join(folder, 'store')) })
  const debtors = createDebtors(client)
  await measure('the audit of all accounts', loop, async () => {
    const { accounts, differences } = await audit({ redis: client, archive, scripts }, {})
    if (accounts < count || differences.length > 0) throw new Error(JSON.stringify(differences[0]))
  })
  await measure('each hour: who owes something', loop, () => debtors.findAll())
  await measure('each hour: what goes to the archive', loop, async () => {
    for await (const refs of refsInGroups(client, 8)) {
      await Promise.all(refs.map((ref) => archive.archive(ref, 1)))
    }
  })
}

/** What a Cluster does with a list when its slot moves: it is written out in one piece and read in one piece. */
async function measureMove(): Promise<void> {
  const idle: Loop = { read: async () => 0 }
  for (const key of [keys.accounts, keys.nameOwners]) {
    const dump = await measure(`moving the slot of \`${key}\`: out`, idle, () =>
      client.dumpBuffer(key),
    )
    if (!dump) throw new Error(`no ${key}`)
    await measure('…, and in', idle, () => client.restore('moved', 0, dump))
    await client.unlink('moved')
  }
}

const lists = [keys.accounts, keys.accountNames, keys.nameOwners, keys.keyIds]

async function memory(): Promise<string> {
  const sizes = lists.map(async (key) => [key, Number(await client.memory('USAGE', key))] as const)
  const found = await Promise.all(sizes)
  const whole = (await redis.bytes()) - empty
  const shown = found.map(([key, bytes]) => `\`${key}\` ${megabytes(bytes)}`)
  const perAccount = Math.round(whole / count)
  return `${megabytes(whole)} in all, ${perAccount} bytes an account; of it ${shown.join(', ')}.`
}

const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`

function rowOf({ what, seconds, longest: [ms, name], loopMs }: Cost): string {
  const took = seconds < 1 ? `${(seconds * 1000).toFixed(1)} ms` : `${seconds.toFixed(0)} s`
  const longest = ms === 0 ? `under ${shownFromMs} ms` : `${ms.toFixed(1)} ms ${name}`
  return `| ${what} | ${took} | ${longest} | ${loopMs.toFixed(0)} ms |`
}

async function main(): Promise<void> {
  const some = await fill()
  const used = await memory()
  await client.config('SET', 'slowlog-log-slower-than', shownFromMs * 1000, 'slowlog-max-len', 1000)
  const gateway = await startTollgate({ folder, backendPort: 1, files: 1024 }, redis)
  await gateway.stop()
  await measure('start of the gateway', { read: async () => 0 }, () => gateway.restart())
  await measureGateway(gateway, some)
  const rss = rssBytes(gateway.pids())
  await gateway.stop()
  await measureUpkeep(link)
  await measureMove()
  await link.close()
  const report = [
    `# ${count.toLocaleString('en')} accounts`,
    '',
    `By \`npm run bench:accounts\`, each account with a key, a name, an external id and a top-up. Redis ${redis.version}, with an`,
    'append-only file. The longest command is what any other caller had to wait for Redis at most. The loop is the longest',
    'turn of the event loop of the gateway; from the audit on, its CPU in a process that did the same work.',
    '',
    `Redis: ${used} The gateway: ${megabytes(rss)}.`,
    '',
    '| | takes | longest command | loop |',
    '|---|---|---|---|',
    ...costs.map(rowOf),
    '',
  ].join('\n')
  process.stdout.write(report)
  if (count === million) writeFileSync(join(import.meta.dirname, 'accounts.md'), report)
}

await run(main)
