// A reload and the plugins of the configurations around it: whose secrets are masked meanwhile, and what the end waits for.

import t from 'tap'
import { setImmediate as turn } from 'node:timers/promises'
import { z } from 'zod'
import { answering } from '../src/exchange.ts'
import type { Gateway, Plugin, Running } from '../src/plugin.ts'
import { startBackend } from './fixtures/backend.ts'
import { chat } from './fixtures/backend-model.ts'
import { Gate } from './fixtures/gate.ts'
import { startGateway } from './fixtures/gateway.ts'
import { Reading, ask } from './fixtures/money.ts'
import { until } from './fixtures/until.ts'

const own = z.strictObject({ on: z.boolean().default(false) })

/** A plugin of the operator's, with one key in gateway.yaml. */
function ownPlugin(setup: (gateway: Gateway, isOn: boolean) => Running | Promise<Running>) {
  const plugin: Plugin<z.infer<typeof own>> = {
    name: 'own',
    schema: own,
    setup: (gateway, { on }) => setup(gateway, on),
  }
  return [plugin] as readonly Plugin[]
}

const yamlFor = (url: string, key: string, isOn = false) =>
  `models: { m: { targets: [{ url: '${url}', key: ${key} }] } }\nplugins: { own: { on: ${isOn} } }\n`

const keyOf = ({ config }: Gateway) => config.models.get('m')?.targets[0]?.key ?? ''

t.test('a key is masked while its plugins are set up, whatever ends meanwhile', async (t) => {
  const [gate, setUp] = [new Gate(), new Gate()]
  const backend = await startBackend(t, chat({ chunks: 3, gate }))
  let isSettingUp = false
  const ownPlugins = ownPlugin(async (gateway, waits) => {
    isSettingUp = waits
    if (waits) await setUp.wait()
    gateway.log.warn({}, `set up with ${keyOf(gateway)}`)
    return {}
  })
  const yaml = yamlFor(backend.url, 'first-secret')
  const running = await startGateway(t, { yaml, ownPlugins })
  const { gateway, log } = running
  const { key } = await running.account(1000)
  gate.next(2)
  const reading = new Reading(await running.call('/v1/chat', key, ask(10, true)))
  await reading.until('w0 ')
  await running.rewrite(yamlFor(backend.url, 'second-secret'))
  await gateway.reload('test')
  await running.rewrite(yamlFor(backend.url, 'third-secret', true))
  const reloading = gateway.reload('test')
  await until(() => isSettingUp)
  gate.open()
  await reading.end()
  await until(() => {
    gateway.log.warn({}, 'is first-secret forgotten')
    return Boolean(log.at(-1)?.includes('first-secret'))
  })
  setUp.open()
  await reloading
  t.match(
    log.findLast((line) => line.includes('set up with')),
    /set up with \*\*\*/,
  )
})

const route = {
  method: 'GET',
  path: '/twice',
  access: 'anybody',
  body: 'none',
  begin: answering(async () => ({ status: 200, headers: {}, body: '' })),
} as const

t.test('the key of a refused configuration is masked until its plugins have closed', async (t) => {
  const closing = Promise.withResolvers<void>()
  const ownPlugins = ownPlugin((gateway, clashes) => {
    if (!clashes) return {}
    const close = async () => {
      await closing.promise
      throw new Error(`${keyOf(gateway)} is refused`)
    }
    return { close, routes: [route, route] }
  })
  const url = 'http://127.0.0.1:1/v1'
  const running = await startGateway(t, { yaml: yamlFor(url, 'first-secret'), ownPlugins })
  await running.rewrite(yamlFor(url, 'second-secret', true))
  await t.rejects(running.gateway.reload('test'), { code: 'invalid_configuration' })
  closing.resolve()
  await until(() => running.log.some((line) => line.includes('a plugin did not close')))
  t.match(running.log.at(-1), /\*\*\* is refused/)
})

t.test('the end waits for the plugins of all configurations, also when one fails', async (t) => {
  const slow = Promise.withResolvers<void>()
  const seen: string[] = []
  const ownPlugins = ownPlugin(({ redis }, fails) => ({
    async close() {
      seen.push(fails ? 'fails' : 'slow')
      if (fails) throw new Error('it is stuck')
      await slow.promise
      seen.push(await redis.client.ping())
    },
  }))
  const url = 'http://127.0.0.1:1/v1'
  const running = await startGateway(t, { yaml: yamlFor(url, 'some-secret'), ownPlugins })
  await running.rewrite(yamlFor(url, 'some-secret', true))
  await running.gateway.reload('test')
  let hasEnded = false
  const ending = running.gateway.close().finally(() => (hasEnded = true))
  ending.catch(() => undefined)
  await until(() => seen.includes('fails'))
  for (let i = 0; i < 5000 && !hasEnded; i++) await turn()
  t.notOk(hasEnded)
  slow.resolve()
  await t.rejects(ending, { message: 'it is stuck' })
  t.same(seen, ['slow', 'fails', 'PONG'])
})

t.test('who asked for a reload is not told the key that a plugin tells', async (t) => {
  const ownPlugins = ownPlugin((gateway, fails) => {
    if (fails) throw new Error(`${keyOf(gateway)} is refused`)
    return {}
  })
  const url = 'http://127.0.0.1:1/v1'
  const running = await startGateway(t, { yaml: yamlFor(url, 'first-secret'), ownPlugins })
  await running.rewrite(yamlFor(url, 'second-secret', true))
  const answer = await running.admin('POST', 'reload')
  t.equal(answer.status, 422)
  const text = await answer.text()
  t.match(text, '*** is refused')
  t.notMatch(text, 'second-secret')
})
