import t from 'tap'
import { keptThroughReloads } from '../src/kept-through-reloads.ts'
import type { Gateway } from '../src/plugin.ts'
import { startGateway } from './fixtures/gateway.ts'

const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n"

t.test('state is made once in a gateway, and again in another one', async (t) => {
  const seen: Gateway[] = []
  const count = keptThroughReloads((gateway, from: number) => {
    seen.push(gateway)
    return { from }
  })
  const { gateway, rewrite } = await startGateway(t, { yaml })
  const first = count(gateway, 1)
  await rewrite(`${yaml}drain: 7s\n`)
  await gateway.reload('test')
  t.not(gateway.current, gateway)
  t.equal(count(gateway.current, 2), first)
  t.equal(first.from, 1)
  t.equal(seen.length, 1)
  const other = await startGateway(t, { yaml })
  t.not(count(other.gateway, 3), first)
})
