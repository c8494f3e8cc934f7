import t from 'tap'
import type { Test } from 'tap'
import { loadConfig } from '../../../src/config/load.ts'
import { plugins } from '../../../src/gateway.ts'
import { spawnGateway } from '../../fixtures/gateway.ts'

const models = "models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }"

async function blockOf(t: Test, block: string) {
  const yaml = `${models}\nplugins: { sessions: ${block} }`
  const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
  const loaded = await loadConfig(file, plugins, { env: {} })
  return 'problems' in loaded
    ? loaded.problems.map(({ path }) => path.join('.'))
    : loaded.config.plugins.get('sessions')
}

t.test('by default sessions are kept for ever, their streams for 15 minutes', async (t) => {
  const mib = 2 ** 20
  const defaults = { retention: 0, archive_after: 0, replay_keep: 900_000, replay_bytes: 8 * mib }
  t.strictSame(await blockOf(t, '{}'), defaults)
  const year = 8760 * 3_600_000
  t.match(await blockOf(t, '{ retention: 8760h }'), { retention: year }, 'longer than any timer')
  t.match(await blockOf(t, '{ archive_after: 720h }'), { archive_after: 720 * 3_600_000 })
  t.match(await blockOf(t, '{ archive_after: 1h }'), { archive_after: 3_600_000 })
  t.strictSame(await blockOf(t, '{ archive_after: 59m }'), ['plugins.sessions.archive_after'])
  t.strictSame(await blockOf(t, '{ retention: 99999h, replay_keep: 0s, replay_bytes: 0 }'), [
    'plugins.sessions.retention',
    'plugins.sessions.replay_keep',
    'plugins.sessions.replay_bytes',
  ])
})

t.test('without metering the start is refused, with what to do', async (t) => {
  const yaml = `${models}\nplugins: { metering: false }`
  await t.rejects(
    spawnGateway(t, { yaml }),
    /exit 1: .*tollgate: plugins.sessions needs plugins.metering/s,
  )
})
