// `npm run rolling`: restarts three gateways behind a load balancer, one after the other, while customers use them, and
// then changes the configuration of all three each second. Prints what the customers got; exits with 1 if one request
// failed, one stream was not whole, or the books are not even.
//
//   --proxy NAME     nginx or haproxy; by default both, one after the other
//   --streams N      open streams, by default 200
//   --rate N         requests a second, by default 200
//   --rounds N       how often each gateway is restarted, by default 2
//   --reloads N      how often all of them reload, one second after the other, by default 60

import { parseArgs } from 'node:util'
import { endOnSignals, withTeardown } from '../ending.ts'
import { proxyNames } from './proxy.ts'
import { roll } from './roll.ts'

const { values } = parseArgs({
  options: {
    proxy: { type: 'string', default: '' },
    streams: { type: 'string', default: '200' },
    rate: { type: 'string', default: '200' },
    rounds: { type: 'string', default: '2' },
    reloads: { type: 'string', default: '60' },
  },
})
const names = proxyNames.filter((name) => name.includes(values.proxy))
const options = {
  streams: Number(values.streams),
  streamSeconds: 6,
  rate: Number(values.rate),
  rounds: Number(values.rounds),
  reloads: Number(values.reloads),
}

endOnSignals()
let faults = 0
for (const name of names) {
  const rolled = await withTeardown((t) => roll(t, name, options))
  console.log(name, rolled.seen)
  const [middle, longest] = rolled.reloadMs.map(Math.round)
  console.log(`a reload took ${middle} ms, the longest ${longest} ms`)
  console.log(rolled.faults.join('\n') || 'no fault')
  faults += rolled.faults.length
}
process.exitCode = faults === 0 && names.length > 0 ? 0 : 1
