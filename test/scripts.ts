// Every script keeps to the slot of the key that it declares: run on a Redis that is a Cluster's node.

import t from 'tap'
import { diskStore } from '../src/store/disk.ts'
import { ledgerScripts } from '../src/ledger/library.ts'
import { keys } from '../src/redis.ts'
import { createScripts } from '../src/scripts.ts'
import type { ScriptLink } from '../src/scripts.ts'
import { freePort } from './fixtures/free-port.ts'
import { connectLink, makeAccount, openLedger, request, topUp, used } from './fixtures/ledger.ts'
import { startRedis } from './fixtures/redis-server.ts'
import { tempDir } from './fixtures/temp-dir.ts'
import { until } from './fixtures/until.ts'

t.test("each script runs on a Cluster's node that has the account's slot alone", async (t) => {
  const args = [
    '--cluster-enabled',
    'yes',
    '--cluster-require-full-coverage',
    'no',
    '--cluster-port',
    `${await freePort()}`,
    '--bind',
    '127.0.0.1',
  ]
  const server = await startRedis(t, { args })
  const link = await connectLink(t, server.socket)
  await link.client.cluster('ADDSLOTSRANGE', 0, 16383)
  await until(async () => (await link.client.cluster('INFO')).includes('cluster_state:ok'))
  const leaseMs = 60
  const archiveStore = diskStore(await tempDir(t))
  const ledger = await openLedger(t, { link, leaseMs, archiveStore, journalKeepMs: -1000 })
  const caller = await makeAccount(link)
  const { ref } = caller
  await keepSlots(link, [keys.account(ref), keys.account('nobody'), keys.accounts])
  await t.rejects(link.client.set('{elsewhere}:account', ''), /slot not served/)
  await topUp(ledger, caller, 1000)
  t.match(await ledger.identify(caller), { plan: 'default', models: ['*'] })
  const lost = await connectLink(t, server.socket)
  const dying = await openLedger(t, { link: lost, leaseMs })
  await dying.admit(request(caller, 10))
  await dying.close(0)
  const hold = await ledger.admit(request(caller, 400))
  await until(async () => (await ledger.balance(caller.ref)).reserved === 400)
  await ledger.settle(hold, used(5))
  await link.client.zadd('accounts', 0, `acct:${caller.ref}`).catch(() => undefined)
  t.equal(await ledger.archive(), 2)
  t.match(await ledger.balance(caller.ref), { balance: 995, reserved: 0 })
})

t.test('a Redis that forgot its scripts is given them again', async (t) => {
  const server = await startRedis(t)
  const link = await connectLink(t, server.socket)
  const ledger = await openLedger(t, { link })
  const caller = await makeAccount(link)
  await link.client.script('FLUSH')
  await topUp(ledger, caller, 5)
  t.match(await ledger.balance(caller.ref), { balance: 5 })
})

t.test('whatever Redis says that is no answer of ours is ledger_unavailable', async (t) => {
  const server = await startRedis(t)
  const link = await connectLink(t, server.socket)
  const ledger = await openLedger(t, { link })
  const caller = await makeAccount(link)
  await link.client.config('SET', 'maxmemory', '1')
  await t.rejects(topUp(ledger, caller, 5), { code: 'ledger_unavailable' })
  await t.rejects(ledger.admit(request(caller, 0)), { code: 'ledger_unavailable' }, 'out of memory')
  await link.client.config('SET', 'maxmemory', '0')
  await link.client.replicaof('127.0.0.1', '1')
  await t.rejects(ledger.admit(request(caller, 0)), { code: 'ledger_unavailable' }, 'a replica')
  // Who meets a replica connects again: the address may lead to the new master by then.
  const other = await connectLink(t, server.socket)
  await other.client.replicaof('NO', 'ONE')
  await until(() =>
    ledger.admit(request(caller, 0)).then(
      () => true,
      () => false,
    ),
  )
})

t.test('an answer of an unknown shape is ledger_unavailable', async (t) => {
  const client = { evalsha: async () => 'OK' }
  const link = { client, up: true, onReady: () => undefined, onLost: () => undefined }
  const scripts = createScripts({ library: ledgerScripts, link: Object(link) })
  await t.rejects(scripts.run('identify', [], []), { code: 'ledger_unavailable' })
})

/** The node has all slots before. */
async function keepSlots({ client }: ScriptLink, names: readonly string[]): Promise<void> {
  const slots = await Promise.all(names.map((name) => client.cluster('KEYSLOT', name)))
  const sorted = [-1, ...slots.toSorted((a, b) => a - b), 16_384]
  const gaps = sorted.slice(1).map((slot, i) => [(sorted[i] ?? 0) + 1, slot - 1] as const)
  for (const [first, last] of gaps) {
    if (first <= last) await client.cluster('DELSLOTSRANGE', first, last)
  }
}
