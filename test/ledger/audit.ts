// An audit finds every manipulation, and nothing without one.

import { mock } from 'node:test'
import t from 'tap'
import type { Test } from 'tap'
import type { AuditPlace } from '../../src/ledger/audit-account.ts'
import type { Ledger } from '../../src/ledger/ledger.ts'
import type { TestAccount, TestLink } from '../fixtures/ledger.ts'
import type { RedisNode } from '../fixtures/redis-node.ts'
import { audit, auditSteps } from '../../src/ledger/audit.ts'
import type { AuditRequest, AuditStep } from '../../src/ledger/audit.ts'
import { keys } from '../../src/redis/keys.ts'
import { inFlight } from '../fixtures/in-flight.ts'
import {
  auditPlace,
  connectLink,
  makeAccount,
  openLedger,
  openOn,
  request,
  topUp,
  used,
} from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'
import { startCluster } from '../fixtures/redis-cluster.ts'

t.test('an audit', async (t) => {
  const { link, ledger } = await openOn(t)
  const { client } = link
  const place = auditPlace(link)
  const open = async () => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 1000)
    await ledger.settle(await ledger.admit(request(caller, 10)), used(4))
    const hold = await ledger.admit(request(caller, 20))
    return { caller, hold }
  }

  const tamperings = [
    ['granted', 1000, 1005, (ref: string) => client.hincrby(keys.account(ref), 'granted', 5)],
    ['spent', 4, 3, (ref: string) => client.hincrby(keys.account(ref), 'spent', -1)],
    ['owed', 0, 5, (ref: string) => client.hset(keys.account(ref), 'owed', 5)],
    ['available', 0, 976, (ref: string) => client.hset(keys.account(ref), 'owed', 5)],
    ['reserved', 20, 21, (ref: string) => client.hincrby(keys.account(ref), 'reserved', 1)],
    ['open holds', 1, 0, (ref: string) => client.hset(keys.account(ref), 'open', 0)],
    ['reserved', 0, 20, (ref: string) => client.del(keys.holdRows(ref))],
  ] as const
  for (const [what, expected, found, tamper] of tamperings) {
    t.test(`finds ${what}: ${expected}, not ${found}`, async (t) => {
      const { caller } = await open()
      t.same((await audit(place, { ref: caller.ref })).differences, [])
      await tamper(caller.ref)
      const { differences } = await audit(place, { ref: caller.ref })
      const account_id = `acct_${caller.ref}`
      t.match(
        differences.find((one) => one.what === what),
        { ref: caller.ref, account_id, expected, found },
      )
    })
  }

  t.test('finds a link that is missing in the chain of the journal', async (t) => {
    const { caller } = await open()
    await ledger.settle(await ledger.admit(request(caller, 10)), used(2))
    const [, charge] = await client.xrange(keys.journal(caller.ref), '-', '+')
    await client.xdel(keys.journal(caller.ref), charge?.[0] ?? '')
    const { differences } = await audit(place, { ref: caller.ref })
    t.match(differences.map(({ what }) => what).sort(), [/^balance_after of txn_/, 'spent'])
  })

  t.test('adds up what is owed and repaid', async (t) => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 10)
    await ledger.settle(await ledger.admit(request(caller, 10)), used(25))
    t.same((await audit(place, { ref: caller.ref })).differences, [])
    await topUp(ledger, caller, 9)
    t.same((await audit(place, { ref: caller.ref })).differences, [])
    await client.hset(keys.account(caller.ref), 'owed', 0)
    t.match((await audit(place, { ref: caller.ref })).differences, [
      { what: 'owed', expected: 6, found: 0 },
    ])
  })

  t.test('recomputes each charge by the price that was applied', async (t) => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 1000)
    const price = { input: 150_000n, output: 600_000n, cachedInput: 75_000n, request: 0n }
    const charged = async (charge: number) => {
      const hold = await ledger.admit(request(caller, 100, { meta: { requestId: 'req_1', price } }))
      await ledger.settle(hold, { charge, prompt: 32, cached: 8, completion: 20 })
    }
    await charged(17)
    t.same((await audit(place, { ref: caller.ref })).differences, [])
    await charged(16)
    t.match((await audit(place, { ref: caller.ref })).differences, [
      { what: /^charge of txn_/, expected: 17, found: 16 },
    ])
  })

  t.test('finds a count of open holds of a key that is wrong', async (t) => {
    const { caller } = await open()
    await client.hincrby(keys.account(caller.ref), `open:key_${caller.ref}`, 1)
    const { differences } = await audit(place, { ref: caller.ref })
    t.match(differences, [{ what: `open holds of key_${caller.ref}`, expected: 1, found: 2 }])
  })

  t.test('of all goes over every account', async (t) => {
    const { caller } = await open()
    await client.zadd(keys.accounts, 0, `acct_${caller.ref}:${caller.ref}`)
    t.match(await ledger.audit(), { accounts: 1, entries: 2, differences: [] })
    await client.hincrby(keys.account(caller.ref), 'granted', 1)
    t.match(pick((await ledger.audit()).differences, 'what'), ['granted', 'balance'])
  })
})

t.test('with Redis away an audit of one or all is ledger_unavailable', async (t) => {
  const { server, link, ledger } = await openOn(t)
  const { ref } = await makeAccount(link)
  await server.kill()
  await t.rejects(ledger.audit(ref), { name: 'GatewayError', code: 'ledger_unavailable' })
  await t.rejects(ledger.audit(), { name: 'GatewayError', code: 'ledger_unavailable' })
})

/** So many listed accounts, each with a top-up of 100. */
async function openMany(t: Test, count: number) {
  const { link, ledger } = await openOn(t)
  const callers: TestAccount[] = []
  for (let i = 0; i < count; i++) callers.push(await addListed(link, ledger))
  const idOf = (at: number) => `acct_${callers[at]?.ref}`
  return { link, ledger, callers, idOf, place: auditPlace(link) }
}

async function addListed(link: TestLink, ledger: Ledger): Promise<TestAccount> {
  const caller = await makeAccount(link)
  await link.client.zadd(keys.accounts, 0, `acct_${caller.ref}:${caller.ref}`)
  await topUp(ledger, caller, 100)
  return caller
}

async function stepsOf(place: AuditPlace, request: AuditRequest): Promise<readonly AuditStep[]> {
  const steps: AuditStep[] = []
  for await (const step of auditSteps(place, request)) steps.push(step)
  return steps
}

t.test('an audit that was stopped goes on from any of its cursors', async (t) => {
  const { link, place, callers, idOf } = await openMany(t, 50)
  for (const at of [3, 20, 49])
    await link.client.hincrby(keys.account(callers[at]?.ref ?? ''), 'granted', 1)
  const whole = await stepsOf(place, {})
  t.match(whole[0], { accounts: 0, total: 50, cursor: null, differences: [] })
  t.match(whole.at(-1), { accounts: 50, entries: 50, difference_count: 6, cursor: idOf(49) })
  const found = (steps: readonly AuditStep[]) => steps.flatMap(({ differences }) => differences)
  for (const [at, { accounts, cursor }] of whole.entries()) {
    if (cursor === null) continue
    const rest = await stepsOf(place, { after: cursor })
    t.match(rest[0], { total: 50 - accounts, cursor })
    t.equal(rest.at(-1)?.accounts, 50 - accounts)
    t.strictSame([...found(whole.slice(0, at + 1)), ...found(rest)], found(whole))
  }
})

t.test('accounts that are charged, deleted and created meanwhile make no difference', async (t) => {
  const { link, ledger, callers, place } = await openMany(t, 100)
  const deleted: string[] = []
  let accounts = 0
  const steps = auditSteps(place, {})
  for await (const step of steps) {
    t.strictSame(step.differences, [])
    accounts = step.accounts
    // While the next accounts are read.
    for (let n = 0; n < 3; n++) {
      const caller = callers[(accounts + 7 * n) % 100]
      if (!caller || deleted.includes(caller.ref)) continue
      void ledger.admit(request(caller, 10)).then((hold) => ledger.settle(hold, used(4)))
    }
    const { ref = '' } = callers[99 - deleted.length] ?? {}
    deleted.push(ref)
    await ledger.closing.close(ref, true)
    await link.client.zadd(keys.deletedAccounts, 0, `acct_${ref}:${ref}`)
    await link.client.zrem(keys.accounts, `acct_${ref}:${ref}`)
    if (accounts < 50) await addListed(link, ledger)
  }
  t.ok(deleted.length > 5, `${deleted.length} deleted`)
  t.ok(accounts > 100, `${accounts} accounts`)
})

t.test('two audits at once ask Redis no more at a time than one', async (t) => {
  const { link, place, callers } = await openMany(t, 60)
  await link.client.hincrby(keys.account(callers[30]?.ref ?? ''), 'granted', 1)
  const count = inFlight(link.client, 'evalsha')
  const [one, other] = await Promise.all([audit(place, {}), audit(place, {})])
  t.equal(count.most, 16)
  t.match(one, { accounts: 60, difference_count: 2 })
  t.strictSame(one, other)
})

t.test('no command of an audit is about many accounts, and none is SCAN or KEYS', async (t) => {
  const { link, place } = await openMany(t, 40)
  const { client } = link
  await client.config('RESETSTAT')
  await audit(place, {})
  const stats = await client.info('commandstats')
  const calls = new Map(
    [...stats.matchAll(/cmdstat_([^:]+):calls=(\d+)/g)].map(([, name = '', n]) => [
      name,
      Number(n),
    ]),
  )
  const known = ['config|resetstat', 'zrangebylex', 'zlexcount', 'evalsha', 'eval', 'time']
  const allowed = [...known, 'hgetall', 'xrange', 'info', 'script|load', 'ping']
  t.strictSame(
    [...calls.keys()].filter((name) => !allowed.includes(name)),
    [],
  )
  t.equal((calls.get('evalsha') ?? 0) - (calls.get('eval') ?? 0), 40, 'one script for each account')
})

t.test('when its caller leaves, an audit ends before the next accounts', async (t) => {
  const { link, place } = await openMany(t, 60)
  const leaving = new AbortController()
  const reason = new Error('left')
  const steps = auditSteps(place, { signal: leaving.signal })
  await steps.next()
  await steps.next()
  await link.client.config('RESETSTAT')
  leaving.abort(reason)
  await t.rejects(steps.next(), reason)
  t.notMatch(await link.client.info('commandstats'), /cmdstat_evalsha/)
})

t.test('when an account cannot be read, nobody reads on in a long journal', async (t) => {
  const { link, ledger, place, callers } = await openMany(t, 2)
  const [broken, long] = callers
  if (!broken || !long) return
  await Promise.all(Array.from({ length: 399 }, () => topUp(ledger, long, 1)))
  const { client } = link
  await client.del(keys.journal(broken.ref))
  await client.set(keys.journal(broken.ref), 'no stream')
  const read = client.xrange.bind(client) as (...args: unknown[]) => Promise<unknown>
  let pages = 0
  mock.method(client, 'xrange', ((...args: unknown[]) => (pages++, read(...args))) as never)
  await t.rejects(audit(place, {}), { code: 'ledger_unavailable' })
  const pagesBefore = pages
  await audit(place, { ref: long.ref })
  t.equal(pages - pagesBefore, 8, 'those of the last audit')
})

t.test('while one long journal is read, an audit still tells how far it is', async (t) => {
  const { link, ledger, place, callers } = await openMany(t, 1)
  await Promise.all(
    callers.map(async (one) => {
      for (let i = 0; i < 100; i++) await topUp(ledger, one, 1)
    }),
  )
  const { client } = link
  const read = client.xrange.bind(client) as (...args: unknown[]) => Promise<unknown>
  const told = Promise.withResolvers<void>()
  const held = async (...args: unknown[]) => told.promise.then(() => read(...args))
  mock.method(client, 'xrange', held as never)
  const steps = auditSteps(place, {})
  await steps.next()
  t.match((await steps.next()).value, { accounts: 0, entries: 10, cursor: null })
  told.resolve()
  t.match((await steps.next()).value, { accounts: 1, entries: 101, difference_count: 0 })
  t.ok((await steps.next()).done)
})

t.test('the largest amounts are compared to the last digit', async (t) => {
  const { link, ledger } = await openOn(t)
  const caller = await makeAccount(link)
  const { ref } = caller
  const most = Number.MAX_SAFE_INTEGER
  await topUp(ledger, caller, most - 1)
  t.same((await audit(auditPlace(link), { ref })).differences, [])
  await link.client.hincrby(keys.account(ref), 'granted', 1)
  t.match((await audit(auditPlace(link), { ref })).differences, [
    { what: 'granted', expected: most - 1, found: most },
    { what: 'balance', expected: most - 1, found: most },
  ])
})

t.test('a report lists a thousand differences and counts all', async (t) => {
  const { link, ledger, place, callers } = await openMany(t, 12)
  for (const caller of callers) {
    await Promise.all(Array.from({ length: 100 }, () => topUp(ledger, caller, 1)))
    const entries = await link.client.xrange(keys.journal(caller.ref), '-', '+')
    await link.client.del(keys.journal(caller.ref))
    for (const [id, fields] of entries) {
      const at = fields.indexOf('balance') + 1
      await link.client.xadd(keys.journal(caller.ref), id, ...fields.with(at, '0'))
    }
  }
  const { differences, difference_count } = await audit(place, {})
  t.equal(differences.length, 1000)
  t.ok(difference_count >= 12 * 101, `${difference_count}`)
})

t.test('in a Cluster, all accounts of all primaries are audited', async (t) => {
  const cluster = await startCluster(t)
  const link = await connectLink(t, cluster.config)
  const ledger = await openLedger(t, { link })
  const callers: TestAccount[] = []
  for (let i = 0; i < 40; i++) callers.push(await addListed(link, ledger))
  const { ref = '' } = callers[7] ?? {}
  await link.client.hincrby(keys.account(ref), 'granted', 1)
  const primaries = new Set<RedisNode>()
  for (const one of callers) primaries.add(await cluster.primaryOf(keys.account(one.ref)))
  t.equal(primaries.size, 3)
  const { accounts, differences } = await audit(auditPlace(link), {})
  t.equal(accounts, 40)
  t.strictSame(
    differences.map((one) => [one.ref, one.what]),
    [
      [ref, 'granted'],
      [ref, 'balance'],
    ],
  )
})
