// `npm run bench:redis`: what each script of a request costs Redis: its commands, and the time it runs. Then what a whole
// request costs Redis in CPU, with reading, writing and the append-only file. There is no gateway, only its ledger. Takes
// half a minute; writes nothing. With `--instructions` it counts instead how many instructions Redis executes for a whole
// request, which needs Valgrind and is about the same in each run.

import { join } from 'node:path'
import { createAccounts } from '../src/accounts/accounts.ts'
import { keyReader } from '../src/accounts/api-key.ts'
import { newId } from '../src/ids.ts'
import type { Hold } from '../src/ledger/hold.ts'
import { createLedger } from '../src/ledger/ledger.ts'
import type { Ledger } from '../src/ledger/ledger.ts'
import { connect } from '../src/redis/connect.ts'
import type { RedisLink } from '../src/redis/connect.ts'
import { diskStore } from '../src/store/disk.ts'
import { endHold, makeHold, plan } from './fill.ts'
import type { Caller } from './fill.ts'
import { folder, run, say } from './ground.ts'
import { instructionsOf } from './instructions.ts'
import { cpuSeconds } from './processes.ts'
import { startRedis } from './redis.ts'
import type { Redis, RedisCommands } from './redis.ts'
import { median } from './report.ts'

const accountCount = 10
/** Holds that are open at once, in each round. */
const atOnce = 32
const warmUps = 50
const rounds = 400

async function main(): Promise<void> {
  if (process.argv.includes('--instructions')) return countInstructions()
  const redis = await startRedis(folder)
  const { admitAll, settleAll, close } = await openLedger(redis, folder)
  const found = { admit: [] as Cost[], settle: [] as Cost[] }
  for (let round = 0; round < warmUps + rounds; round++) {
    const start = await redis.commands()
    const holds = await admitAll()
    const between = await redis.commands()
    await settleAll(holds)
    const end = await redis.commands()
    if (round < warmUps) continue
    found.admit.push(costOf(start, between))
    found.settle.push(costOf(between, end))
  }
  const costs = Object.entries(found).map(([name, each]) => ({
    name,
    commands: median(each.map(({ commands }) => commands)),
    micros: median(each.map(({ micros }) => micros)),
  }))
  const before = cpuSeconds([redis.pid])
  for (let round = 0; round < rounds; round++) await settleAll(await admitAll())
  const cpuMicros = ((cpuSeconds([redis.pid]) - before) * 1e6) / (rounds * atOnce)
  await close()
  print(costs, cpuMicros)
}

async function countInstructions(): Promise<void> {
  const count = await instructionsOf(folder, atOnce, async (redis, own, rounds) => {
    const { admitAll, settleAll, close } = await openLedger(redis, own)
    for (let round = 0; round < rounds; round++) await settleAll(await admitAll())
    await close()
  })
  if (count === undefined) return say('There is no valgrind here, so no instructions are counted.')
  say(`Redis executes ${Math.round(count).toLocaleString('en')} instructions for a request.`)
}

/** A ledger with all callers. */
async function openLedger(redis: Redis, folder: string) {
  const link = await connect(
    { kind: 'single', host: '', port: 0, path: redis.socket, db: 0 },
    { commandTimeoutMs: 30_000 },
  )
  const ledger = await createLedger({
    link,
    spoolDir: join(folder, 'spool'),
    archiveStore: diskStore(join(folder, 'store')),
    leaseMs: 30_000,
    plans: () => new Map([['default', plan]]),
  })
  const callers: Caller[] = []
  for (let n = 0; n < accountCount; n++) callers.push(await makeCaller(link, ledger, n))
  const callerOf = (n: number) => callers[n % accountCount] as Caller
  const all = Array.from({ length: atOnce }, (_, n) => n)
  return {
    admitAll: () => Promise.all(all.map((n) => makeHold(ledger, callerOf(n)))),
    settleAll: (holds: readonly Hold[]) => Promise.all(holds.map((hold) => endHold(ledger, hold))),
    async close() {
      await ledger.close()
      await link.close()
    },
  }
}

async function makeCaller(link: RedisLink, ledger: Ledger, n: number): Promise<Caller> {
  const config = { plugins: new Map() }
  const accounts = createAccounts(link.client, config)
  const { ref } = await accounts.createAccount({ name: `customer ${n}` })
  const { key } = await accounts.createKey(ref, {})
  await ledger.credit({ ref, idempotencyId: newId('req'), amount: 1e14, type: 'topup' })
  return { ref, hmac: keyReader(config)(key)?.hmac ?? '' }
}

interface Cost {
  readonly commands: number
  readonly micros: number
}

function costOf(before: RedisCommands, after: RedisCommands): Cost {
  return {
    commands: (after.all - before.all) / atOnce,
    micros: (after.scriptMicros - before.scriptMicros) / atOnce,
  }
}

function print(costs: readonly (Cost & { readonly name: string })[], cpuMicros: number): void {
  const sum = (what: keyof Cost) => costs.reduce((all, one) => all + one[what], 0)
  const row = (name: string, commands: number, micros: number) =>
    `| ${name} | ${commands.toFixed(1)} | ${micros.toFixed(1)} |`
  say(
    [
      '| script | commands, its own call included | µs that it runs |',
      '| --- | --- | --- |',
      ...costs.map(({ name, commands, micros }) => row(name, commands, micros)),
      row('both', sum('commands'), sum('micros')),
      '',
      `Redis' CPU for a request, with reading and writing: ${cpuMicros.toFixed(1)} µs`,
    ].join('\n'),
  )
}

await run(main)
