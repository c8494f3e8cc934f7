// An audit finds every manipulation, and nothing without one.

import t from 'tap'
import { audit } from '../../src/ledger/audit.ts'
import { keys } from '../../src/redis/keys.ts'
import { makeAccount, openOn, request, topUp, used } from '../fixtures/ledger.ts'
import { pick } from '../fixtures/pick.ts'

t.test('an audit', async (t) => {
  const { link, ledger } = await openOn(t)
  const { client } = link
  const place = { redis: client, archive: undefined }
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
    ['leases', 1, 0, (ref: string) => client.del(keys.holdLeases(ref))],
    ['reserved', 0, 20, (ref: string) => client.del(keys.holdRows(ref))],
  ] as const
  for (const [what, expected, found, tamper] of tamperings) {
    t.test(`finds ${what}: ${expected}, not ${found}`, async (t) => {
      const { caller } = await open()
      t.same((await audit(place, caller.ref)).differences, [])
      await tamper(caller.ref)
      const { differences } = await audit(place, caller.ref)
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
    const { differences } = await audit(place, caller.ref)
    t.match(differences.map(({ what }) => what).sort(), [/^balance_after of txn_/, 'spent'])
  })

  t.test('adds up what is owed and repaid', async (t) => {
    const caller = await makeAccount(link)
    await topUp(ledger, caller, 10)
    await ledger.settle(await ledger.admit(request(caller, 10)), used(25))
    t.same((await audit(place, caller.ref)).differences, [])
    await topUp(ledger, caller, 9)
    t.same((await audit(place, caller.ref)).differences, [])
    await client.hset(keys.account(caller.ref), 'owed', 0)
    t.match((await audit(place, caller.ref)).differences, [{ what: 'owed', expected: 6, found: 0 }])
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
    t.same((await audit(place, caller.ref)).differences, [])
    await charged(16)
    t.match((await audit(place, caller.ref)).differences, [
      { what: /^charge of txn_/, expected: 17, found: 16 },
    ])
  })

  t.test('finds a count of open holds of a key that is wrong', async (t) => {
    const { caller } = await open()
    await client.hincrby(keys.account(caller.ref), `open:key_${caller.ref}`, 1)
    const { differences } = await audit(place, caller.ref)
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
