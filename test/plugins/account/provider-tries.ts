import t from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { createProviderTries } from '../../../src/plugins/account/provider-tries.ts'
import type { Gateway } from '../../../src/plugin.ts'
import { handClock } from '../../fixtures/hand-clock.ts'

const gatewayWith = (failures_per_minute_per_ip: number) =>
  ({
    state: {},
    config: { plugins: new Map([['account', { failures_per_minute_per_ip }]]) },
  }) as unknown as Gateway

/** Log-ins that a test lets end. */
function triesOf(gateway: Gateway) {
  const tried = createProviderTries(gateway)
  /** Returns how to end the log-in: without an error, it lets in. */
  const run = (address: string) => {
    const { promise: ended, resolve: end } = Promise.withResolvers<GatewayError | undefined>()
    const letIn = async () => {
      const error = await ended
      if (error) throw error
      return 'in'
    }
    const answer = tried<unknown>(address, { letIn, wait: (error) => error })
    return (error?: GatewayError) => {
      end(error)
      return answer.catch((thrown: unknown) => thrown)
    }
  }
  return {
    run,
    /** A log-in that is refused, or has to wait. */
    fail: (address: string, error = new GatewayError('login_refused')) => run(address)(error),
  }
}

const tooOften = { code: 'rate_limit_exceeded' }
const refused = { code: 'login_refused' }

t.test('bad log-ins of an address are spent at once, and come back evenly', async (t) => {
  const clock = handClock(t)
  const { run, fail } = triesOf(gatewayWith(3))
  const ends = [run('192.0.2.1'), run('192.0.2.1')]
  const good = run('192.0.2.1')
  t.match(await fail('192.0.2.1'), { ...tooOften, retryAfterMs: 20_000 }, 'while they still run')
  t.equal(await good(), 'in')
  t.match(await fail('192.0.2.1'), refused, 'a good one counts for nothing')
  t.match(await fail('192.0.2.1'), tooOften)
  for (const end of ends) t.match(await end(new GatewayError('login_refused')), refused)
  t.match(await fail('192.0.2.1'), tooOften)
  t.match(await fail('192.0.2.2'), refused)
  clock.pass(20_000)
  t.match(await fail('192.0.2.1'), refused)
  t.match(await fail('192.0.2.1'), tooOften)
})

t.test('that Redis is away counts against no address', async (t) => {
  const { fail } = triesOf(gatewayWith(1))
  const away = new GatewayError('ledger_unavailable')
  for (let i = 0; i < 3; i++) t.equal(await fail('192.0.2.1', away), away)
})

t.test('the addresses of one /64 are one', async (t) => {
  const { fail } = triesOf(gatewayWith(1))
  t.match(await fail('2001:db8::1'), refused)
  t.match(await fail('2001:db8::2'), tooOften)
  t.match(await fail('2001:db8:0:1::1'), refused)
})

t.test('one address has half of the places, and a reload frees none', async (t) => {
  const gateway = gatewayWith(1000)
  const { run } = triesOf(gateway)
  const ends = Array.from({ length: 50 }, () => run('192.0.2.1'))
  const again = triesOf(gateway)
  t.match(await again.fail('192.0.2.1'), { code: 'concurrency_limit_exceeded', status: 429 })
  const others = Array.from({ length: 49 }, (_, i) => again.run(`198.51.100.${i}`))
  t.match(await again.fail('203.0.113.1'), { code: 'overloaded' })
  for (const end of [...ends, ...others]) t.equal(await end(), 'in')
  t.equal(await again.run('192.0.2.1')(), 'in')
})
