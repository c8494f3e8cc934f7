// Keys of one part in another's block: read as the loader has parsed them, and by their defaults where the plugin is off.

import t from 'tap'
import type { Test } from 'tap'
import { accountSettings } from '../../src/accounts/api-key.ts'
import { loadConfig } from '../../src/config/load.ts'
import { duration, z } from '../../src/config/schema.ts'
import { settingsOf } from '../../src/config/settings.ts'
import { plugins } from '../../src/gateway.ts'
import { ledgerSettings } from '../../src/ledger/open.ts'

const lease = settingsOf('lender', { lease: duration().prefault('30s') })
const lender = {
  name: 'lender',
  schema: z.strictObject({ first: z.int().default(1), ...lease.shape }),
}

async function configOf(t: Test, block: string, known: Parameters<typeof loadConfig>[1]) {
  const yaml = `models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }\nplugins: ${block}\n`
  const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
  const loaded = await loadConfig(file, known, { env: {} })
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  return loaded.config
}

t.test('a part reads its own keys, whoever else has keys in the block', async (t) => {
  const read = async (block: string) => lease.of(await configOf(t, block, [lender])).lease
  t.equal(await read('{ lender: { first: 2, lease: 5s } }'), 5000)
  t.equal(await read('{}'), 30_000, 'not given')
  t.equal(await read('{ lender: false }'), 30_000, 'the plugin is off')
})

t.test('a key without a default is refused when it is declared', async (t) => {
  t.throws(() => settingsOf('lender', { lease: duration() }))
})

// Nothing else holds a part's declaration and the plugin's schema together.
t.test('the built-in plugins have the keys of the parts that read them', async (t) => {
  const given = '{ metering: { lease: 7s }, auth: { pepper: cayenne } }'
  const config = await configOf(t, given, plugins)
  t.equal(ledgerSettings.of(config).lease, 7000)
  t.equal(accountSettings.of(config).pepper, 'cayenne')
  const off = '{ sessions: false, metering: false, auth: false }'
  const bare = await configOf(t, off, plugins)
  t.equal(ledgerSettings.of(bare).lease, 30_000)
  t.equal(accountSettings.of(bare).pepper, '')
})
