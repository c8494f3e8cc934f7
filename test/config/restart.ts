// That a reload leaves what needs a restart as it was, is shown on a whole gateway: test/reload.ts.

import t from 'tap'
import { needsRestart } from '../../src/config/restart.ts'

const needs = (...path: readonly (string | number)[]) => needsRestart({ path, from: 1, to: 2 })

t.test('ports, data and connections need a restart; all else does not', async (t) => {
  for (const name of ['data', 'redis', 'store']) t.ok(needs(name), name)
  t.ok(needs('redis', 'tls', 'ca'))
  t.ok(needs('listen', 'port'))
  t.ok(needs('admin', 'listen', 'port'))
  t.ok(needs('plugins', 'metering', 'lease'))
  t.ok(needs('plugins', 'metering', 'time_zone'))
  t.notOk(needs('admin', 'token'))
  t.notOk(needs('listen', 'tls', 'cert'))
  t.notOk(needs('listen', 'trusted_proxies'))
  t.notOk(needs('models', 'data', 'price'))
  t.notOk(needs('plugins', 'metering', 'min_output_tokens'))
})

t.test('a block that is needed all the time neither comes nor goes', async (t) => {
  const path = ['listen', 'tls']
  t.ok(needsRestart({ path, from: undefined, to: {} }))
  t.ok(needsRestart({ path, from: {}, to: undefined }))
  t.ok(needsRestart({ path: ['plugins', 'metering'], from: false, to: {} }))
  t.notOk(needsRestart({ path: ['plugins', 'billing'], from: false, to: {} }))
})
