// src/config/named.ts: one rule for the names of keys, for types and values alike.

import t from 'tap'
import { limits } from '../../src/config/keys.ts'
import { named } from '../../src/config/named.ts'
import { bytes, decimal, duration, z } from '../../src/config/schema.ts'

t.test('camel case, with the unit behind a time and a size, and nothing behind the rest', (t) => {
  const schema = z.strictObject({
    first_byte: duration().prefault('30s'),
    part_size: bytes().prefault('1KiB').describe('Said.'),
    most: bytes().optional(),
    cached_input: decimal().prefault('0.5'),
    per_minute_per_ip: z.int().default(3),
    host: z.string().optional(),
  })
  const names = named(schema, schema.parse({ most: 7 }))
  // Each is read by its typed name: the compiler judges the types, the test the values.
  const { firstByteMs, partSizeBytes, mostBytes, cachedInput, perMinutePerIp, host } = names
  t.strictSame(
    [firstByteMs, partSizeBytes, mostBytes, cachedInput, perMinutePerIp, host],
    [30_000, 1024, 7, 500_000n, 3, undefined],
  )
  t.equal(Object.keys(names).length, 5)
  t.end()
})

t.test('no two keys of a block get one name', (t) => {
  const { shape } = limits
  const names = named(limits, limits.parse({}))
  t.equal(Object.keys(names).length, Object.keys(shape).length)
  t.end()
})
