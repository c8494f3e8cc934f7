// src/store/drivers.ts: each driver is in the schema by its name, and found again by it.

import t from 'tap'
import type { z } from '../../src/config/schema.ts'
import { driverOf, drivers, storeKeys } from '../../src/store/drivers.ts'

t.test('each has a block of its name, with its sentence', (t) => {
  const keys: Readonly<Record<string, z.ZodType>> = storeKeys()
  t.strictSame(Object.keys(keys), Object.keys(drivers))
  for (const [name, block] of Object.entries(keys)) t.match(block.description, /^Keeps .*\.$/, name)
  t.end()
})

t.test('a configuration leads to its driver, with what the driver made of its block', (t) => {
  const settings = { path: '/files' }
  t.same(driverOf({ disk: settings }), { driver: drivers.disk, settings })
  t.throws(() => driverOf(Object({ tape: {} })), /there is no store tape/)
  t.end()
})
