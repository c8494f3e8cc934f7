import { mock } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import t from 'tap'
import { z } from 'zod'
import { Edition, PluginRefusal } from '../src/edition.ts'
import type { Plugin } from '../src/plugin.ts'
import { startGateway } from './fixtures/gateway.ts'
import { handClock } from './fixtures/hand-clock.ts'
import { until } from './fixtures/until.ts'

const yaml = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\n"
const names = ['billing', 'models'] as const

/** Plugins that record their set-up and their end, under names that the configuration has. */
function recorders(seen: string[], fails?: 'setup' | 'close'): readonly Plugin[] {
  return names.map((name, i) => ({
    name,
    schema: z.strictObject({}),
    async setup() {
      if (fails === 'setup' && i === 1) throw new Error('no')
      seen.push(`+${name}`)
      const close = async () => {
        seen.push(`-${name}`)
        if (fails === 'close') throw new Error('stuck')
      }
      return { close }
    },
  }))
}

t.test('it closes once: when it is retired and its last exchange has ended', async (t) => {
  const { gateway } = await startGateway(t, { yaml })
  const seen: string[] = []
  const closed: Edition[] = []
  const edition = await Edition.open(gateway, recorders(seen), (one) => closed.push(one))
  edition.enter()
  edition.enter()
  edition.leave()
  edition.retire()
  t.same(seen, ['+billing', '+models'])
  edition.leave()
  await until(() => closed.length === 1)
  t.same(seen, ['+billing', '+models', '-models', '-billing'])
  await edition.close()
  t.equal(seen.length, 4)
  t.same(closed, [edition])
})

t.test('an idle one closes as soon as it is retired, one in use when it has to', async (t) => {
  const { gateway } = await startGateway(t, { yaml })
  const seen: string[] = []
  const idle = await Edition.open(gateway, recorders(seen), () => seen.push('closed'))
  idle.retire()
  await until(() => seen.includes('closed'))
  const busy = await Edition.open(gateway, recorders([]), () => seen.push('cut'))
  busy.enter()
  busy.retire()
  await busy.close()
  t.equal(seen.at(-1), 'cut')
})

t.test('a plugin that refuses is named, and those before it are closed', async (t) => {
  const { gateway } = await startGateway(t, { yaml })
  const seen: string[] = []
  const opening = Edition.open(gateway, recorders(seen, 'setup'), () => seen.push('closed'))
  await t.rejects(opening, new PluginRefusal('models', new Error('no')))
  t.same(seen, ['+billing', '-billing'])
})

t.test('a refusal is told, also when a plugin before it fails to close', async (t) => {
  const { gateway } = await startGateway(t, { yaml })
  const list = [...recorders([], 'close').slice(0, 1), ...recorders([], 'setup').slice(1)]
  await t.rejects(
    Edition.open(gateway, list, () => undefined),
    { name: 'PluginRefusal', plugin: 'models' },
  )
})

t.test('a set-up that never ends is a refusal, and one that ends too late is closed', async (t) => {
  const { gateway } = await startGateway(t, { yaml })
  const seen: string[] = []
  const late = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const slow: Plugin<object> = {
    name: 'models',
    schema: z.strictObject({}),
    async setup() {
      begun.resolve()
      await late.promise
      return { close: async () => void seen.push('-late') }
    },
  }
  mock.timers.enable({ apis: ['setTimeout'] })
  t.teardown(() => mock.timers.reset())
  const opening = Edition.open(gateway, [...recorders(seen).slice(0, 1), slow], () => undefined)
  const refused = t.rejects(opening, {
    name: 'PluginRefusal',
    plugin: 'models',
    message: 'setup of models took more than 15000 ms',
  })
  await begun.promise
  mock.timers.tick(15_000)
  await refused
  t.same(seen, ['+billing', '-billing'])
  late.resolve()
  await until(() => seen.at(-1) === '-late')
})

t.test('a plugin that fails to close is told, and the others are closed', async (t) => {
  const { gateway } = await startGateway(t, { yaml })
  const seen: string[] = []
  let told: unknown
  const edition = await Edition.open(gateway, recorders(seen, 'close'), (_, error) => {
    told = error
  })
  edition.retire()
  await until(() => told !== undefined)
  t.same(seen.slice(2), ['-models', '-billing'])
})

t.test(
  'closes that never end are told, have 5 s together, and the others are closed',
  async (t) => {
    const { gateway } = await startGateway(t, { yaml })
    const seen: string[] = []
    const stuck = (name: string): Plugin<object> => ({
      name,
      schema: z.strictObject({}),
      setup: () => ({
        close() {
          seen.push(`?${name}`)
          return new Promise<never>(() => undefined)
        },
      }),
    })
    const list = [...recorders(seen).slice(0, 1), stuck('auth'), stuck('models')]
    const edition = await Edition.open(gateway, list, () => undefined)
    const { pass } = handClock(t, 'setTimeout')
    const closing = edition.close().catch((error: unknown) => error)
    pass(5000)
    while (!seen.includes('?auth')) await turn()
    pass(500)
    const both = (await closing) as SuppressedError
    t.match(both.suppressed, { message: 'close of models took more than 5000 ms' })
    t.match(both.error, { message: 'close of auth took more than 500 ms' })
    t.same(seen, ['+billing', '?models', '?auth', '-billing'])
  },
)
