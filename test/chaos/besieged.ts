// Attacks on other customers, in short: each honest customer gets everything that it asks for. How soon, and what it
// costs the gateway, is measured by `npm run thieves`, which needs a machine without other work.

import t from 'tap'
import { attacks } from '../../scripts/thieves/others/attacks.ts'
import type { Answers, Assault, Measure, Measured } from '../../scripts/thieves/others/orders.ts'
import {
  attackerFile,
  customerFile,
  measuredUntil,
  sceneOf,
  startBesieged,
} from '../../scripts/thieves/others/siege.ts'
import { startWorker } from '../../scripts/worker.ts'
import { differencesOf } from '../fixtures/money.ts'

/** Attacks at the same time, on the same two gateways. */
const atOnce = 2
const duringMs = 1000

t.test('honest customers are served while others attack', async (t) => {
  const customers = await Promise.all(
    Array.from({ length: atOnce }, () => startWorker<Measure, Measured>(t, customerFile)),
  )
  const { gateways } = await startBesieged(t, customers[0]?.address ?? '')
  const left = Object.keys(attacks)
  const siege = async (customer: (typeof customers)[number]) => {
    const attacker = await startWorker<Assault, Answers>(t, attackerFile)
    for (let attack = left.shift(); attack; attack = left.shift()) {
      const scene = await sceneOf(gateways)
      const order = { ...scene.assault, attack, ms: duringMs }
      const measure = (ms: number) => customer.order({ ...scene.measure, ms })
      await attacker.order({ ...order, step: 'prepare' })
      const running = attacker.order({ ...order, step: 'run' })
      const { requests, failures } = await measuredUntil(running, { first: duringMs, measure })
      const answers = await running
      t.comment(`${attack}: ${requests} honest requests; ${JSON.stringify(answers)}`)
      t.strictSame(failures, {}, `${attack}: the customer was served`)
      t.ok(requests > 0 && Object.keys(answers).length > 0, `${attack}: both were there`)
    }
  }
  await Promise.all(customers.map(siege))
  for (const gateway of gateways) {
    t.strictSame(await differencesOf(gateway), [], 'the books agree')
    t.equal(await gateway.stop(), 0, 'it ends as it does on other days')
  }
})
