// Every script stays in the slot of the key that it declares: tested on a Redis that is a node of a Cluster.

import { readFileSync } from 'node:fs'
import t from 'tap'
import type { Test } from 'tap'
import { keyScripts } from '../../src/accounts/account-keys.ts'
import { roomScripts } from '../../src/accounts/room.ts'
import { useScripts } from '../../src/accounts/use.ts'
import { fileScripts } from '../../src/files/library.ts'
import { pageKeyScripts } from '../../src/portal/page-keys.ts'
import { portalScripts } from '../../src/portal/portal.ts'
import { sessionScripts } from '../../src/sessions/library.ts'
import { diskStore } from '../../src/store/disk.ts'
import { ledgerScripts } from '../../src/ledger/library.ts'
import { sendOrder, settleOrder } from '../../src/ledger/orders.ts'
import { accountKeys, keys } from '../../src/redis/keys.ts'
import { claimScripts } from '../../src/redis/claims.ts'
import { createScripts } from '../../src/redis/scripts.ts'
import type { Reply, ScriptLibrary, ScriptLink } from '../../src/redis/scripts.ts'
import { freePort } from '../fixtures/free-port.ts'
import {
  connectLink,
  makeAccount,
  openAdmission,
  openLedger,
  openOn,
  reapingStarted,
  request,
  topUp,
  used,
} from '../fixtures/ledger.ts'
import { startRedis } from '../fixtures/redis-server.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

t.test("each script runs on a Cluster's node that has the account's slot alone", async (t) => {
  const { server, link } = await startNode(t)
  const leaseMs = 60
  const archiveStore = diskStore(await tempDir(t))
  const ledger = await openLedger(t, { link, leaseMs, archiveStore, journalKeepMs: -1000 })
  const caller = await makeAccount(link)
  const { ref } = caller
  const lists = [keys.accounts, keys.deletedAccounts]
  await keepSlots(link, [keys.account(ref), keys.account('nobody'), ...lists])
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

t.test('while its slot is moved, a script does all or nothing', async (t) => {
  const { link } = await startNode(t)
  const { link: other, busPort } = await startNode(t)
  await reapingStarted(link)
  const { client } = link
  await client.cluster('MEET', '127.0.0.1', 1, busPort)
  const otherId = String(await other.client.cluster('MYID'))
  const known = new RegExp(`^${otherId} \\S+ master`, 'm')
  await until(async () => known.test(String(await client.cluster('NODES'))))
  const ledger = await openLedger(t, { link })
  const caller = await makeAccount(link)
  const { ref } = caller
  await topUp(ledger, caller, 1000)
  // Its upkeep would reap the hold that a script is to reap below.
  await ledger.close(0)
  const scripts = createScripts({ link, library: ledgerScripts })
  const admission = openAdmission({ scripts, leaseMs: 60_000 })
  const admit = () => admission.admit(request(caller, 10))
  await sendOrder(scripts, settleOrder(await admit(), used(5)))
  // Both scripts have to move what was used in an hour that has ended, to where an hour before has been.
  const now = Math.floor(Date.now() / 3_600_000)
  for (const day of [now, now + 1].map((hour) => keys.usageDay(ref, Math.floor(hour / 24)))) {
    const ended = `1 7 2 5 5 0 ${now - 1} 0 0 0 0 0 0`
    for (const model of ['m', 'n']) await client.hset(day, `${model}|key_${ref}|all`, ended)
  }
  for (const hour of [now - 1, now]) await client.hset(keys.usageHour(ref, hour), 'other', '')
  const [held, expired] = [await admit(), await admit()]
  await client.hset(keys.holdRows(ref), expired.id, `10 5 7 2 5 key_${ref} n {} 0000000000001`)
  await client.hset(keys.account(ref), 'next_expiry', 0)
  const names = [...accountKeys(ref), keys.key(ref, caller.hmac)]
  const attempts: Readonly<Record<string, () => Promise<Reply>>> = {
    settle: () => sendOrder(scripts, settleOrder(held, used(7))),
    reap: () => scripts.run('reap', accountKeys(ref), ['1']),
  }
  const slot = await client.cluster('KEYSLOT', names[0] ?? '')
  const all = (await client.keys(`{${ref}}:*`)).filter((name) => !name.includes(':credit:'))
  const contents = async () =>
    Promise.all(all.map(async (name) => (await client.dumpBuffer(name))?.toString('latin1')))
  for (const [name, attempt] of Object.entries(attempts)) {
    // A reaping does not touch the key's row.
    for (const gone of all.filter((gone) => name === 'settle' || gone !== names[3])) {
      const moved = await client.dumpBuffer(gone)
      await client.del(gone)
      const before = await contents()
      await client.cluster('SETSLOT', slot, 'MIGRATING', otherId)
      await t.rejects(attempt(), { code: 'ledger_unavailable' }, `${name} without ${gone}`)
      await client.cluster('SETSLOT', slot, 'STABLE')
      t.same(await contents(), before)
      await client.restore(gone, 0, moved)
    }
    t.match(await attempt(), { word: 'ok' }, name)
  }
  const next = await openLedger(t, { link })
  t.match(await next.balance(ref), { balance: 983, reserved: 0 })
})

t.test('a Redis that forgot its scripts gets them again', async (t) => {
  const { link, ledger } = await openOn(t)
  const caller = await makeAccount(link)
  await link.client.script('FLUSH')
  await topUp(ledger, caller, 5)
  t.match(await ledger.balance(caller.ref), { balance: 5 })
})

t.test('an unexpected reply of Redis is ledger_unavailable', async (t) => {
  const { server, link, ledger } = await openOn(t)
  const caller = await makeAccount(link)
  await link.client.config('SET', 'maxmemory', '1')
  await t.rejects(topUp(ledger, caller, 5), { code: 'ledger_unavailable' })
  await t.rejects(ledger.admit(request(caller, 0)), { code: 'ledger_unavailable' }, 'out of memory')
  await link.client.config('SET', 'maxmemory', '0')
  await link.client.replicaof('127.0.0.1', '1')
  await t.rejects(ledger.admit(request(caller, 0)), { code: 'ledger_unavailable' }, 'a replica')
  // A client that meets a replica connects again: by then the address may lead to the new master.
  const other = await connectLink(t, server.socket)
  await other.client.replicaof('NO', 'ONE')
  await until(() =>
    ledger.admit(request(caller, 0)).then(
      () => true,
      () => false,
    ),
  )
})

t.test('a reply of an unknown shape is ledger_unavailable', async (t) => {
  for (const reply of ['OK', 'ok', 'ok\nnow', 7, null, ['ok'], ['ok', '1']]) {
    const client = { evalsha: async () => reply }
    const link = { client, up: true, onReady: () => undefined, onLost: () => undefined }
    const scripts = createScripts({ library: ledgerScripts, link: Object(link) })
    await t.rejects(scripts.run('identify', [], []), { code: 'ledger_unavailable' })
  }
})

t.test('so is a word that the script does not have', async (t) => {
  const server = await startRedis(t)
  const link = await connectLink(t, server.socket)
  const folder = new URL('lua/', new URL('../../src/redis/claims.ts', import.meta.url))
  const known = createScripts({ link, library: claimScripts })
  t.match(await known.run('release', ['claim'], ['running']), { word: 'claim_lost' })
  const library = { folder, scripts: { release: { words: ['ok', 'lost'] } } } as const
  const scripts = createScripts({ link, library })
  for (const flight of ['known to Redis', 'sent anew']) {
    await t.rejects(
      scripts.run('release', ['claim'], ['running']),
      { code: 'ledger_unavailable', cause: { name: 'TypeError', message: /claim_lost/ } },
      flight,
    )
    await link.client.script('FLUSH')
  }
})

const libraries: readonly ScriptLibrary<Readonly<Record<string, string>>>[] = [
  claimScripts,
  fileScripts,
  keyScripts,
  ledgerScripts,
  pageKeyScripts,
  portalScripts,
  roomScripts,
  sessionScripts,
  useScripts,
]

t.test('a library has the words that the headers of its scripts name', async (t) => {
  for (const { folder, scripts } of libraries) {
    const read = (name: string) => readFileSync(new URL(`${name}.lua`, folder), 'utf8')
    for (const [name, { after = [], words }] of Object.entries(scripts)) {
      const header = /^(?:--.*\n)+/.exec(read(name))?.[0].replace(/\n--/g, ' ') ?? ''
      const answers = header.slice(header.indexOf('Reply: ') + 'Reply: '.length).split(' | ')
      const named = answers.map((answer) => answer.trim().replace(/,[^]*/, ''))
      const codes = words.filter((word) => !named.includes(word))
      // `<error code>` stands for those that the scripts share.
      if (!named.includes('<error code>')) t.strictSame(codes, [], name)
      t.strictSame(
        named.filter((word) => word !== '<error code>' && !words.includes(word)),
        [],
        name,
      )
      const text = [...after, name].map(read).join('')
      const unsaid = words.filter((word) => !text.includes(`'${word}'`))
      t.strictSame(unsaid, [], `${name} says none that it has not`)
    }
  }
})

/** A Cluster's node with all slots. */
async function startNode(t: Test) {
  const busPort = await freePort()
  const cluster = ['--cluster-enabled', 'yes', '--cluster-require-full-coverage', 'no']
  const bus = ['--cluster-port', `${busPort}`, '--bind', '127.0.0.1']
  const server = await startRedis(t, { args: [...cluster, ...bus] })
  const link = await connectLink(t, server.socket)
  await link.client.cluster('ADDSLOTSRANGE', 0, 16383)
  await until(async () => (await link.client.cluster('INFO')).includes('cluster_state:ok'))
  return { server, link, busPort }
}

/** Keeps only these keys' slots; the node has all slots before. */
async function keepSlots({ client }: ScriptLink, names: readonly string[]): Promise<void> {
  const slots = await Promise.all(names.map((name) => client.cluster('KEYSLOT', name)))
  const sorted = [-1, ...slots.toSorted((a, b) => a - b), 16_384]
  const gaps = sorted.slice(1).map((slot, i) => [(sorted[i] ?? 0) + 1, slot - 1] as const)
  for (const [first, last] of gaps) {
    if (first <= last) await client.cluster('DELSLOTSRANGE', first, last)
  }
}
