// Gateways are restarted one after the other behind a load balancer, and reload: no request fails, no stream is cut.

import t from 'tap'
import { proxyNames } from '../../scripts/rolling/proxy.ts'
import { roll } from '../../scripts/rolling/roll.ts'

for (const name of proxyNames) {
  t.test(`behind ${name}`, async (t) => {
    const load = { streams: 10, streamSeconds: 1, rate: 20, rounds: 1, reloads: 3 }
    const { faults, seen } = await roll(t, name, load)
    t.same(faults, [])
    t.ok(seen.streams > 20 && seen.requests > 50, JSON.stringify(seen))
    t.match(seen, { restarts: 3, reloads: 9 })
  })
}
