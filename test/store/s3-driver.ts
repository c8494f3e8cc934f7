// src/store/s3-driver.ts: a bucket in gateway.yaml.

import t from 'tap'
import { s3 } from '../../src/store/s3-driver.ts'

const accepts = (key: string, good: readonly string[], bad: readonly string[]) => {
  const isGood = (value: string) => s3.keys.safeParse({ bucket: 'files', [key]: value }).success
  for (const value of good) t.ok(isGood(value), `good ${key}: ${value}`)
  for (const value of bad) t.notOk(isGood(value), `bad ${key}: ${value}`)
}

t.test('buckets, prefixes of objects and endpoints', (t) => {
  accepts('bucket', ['abc', 'a.b-c', '0ab'], ['ab', 'Abc', '-ab', 'a_b', 'a'.repeat(64), ''])
  accepts('prefix', ['', 'a/', 'a/b-1/'], ['a', '/', '/a/', '../', 'a//b/', 'ä/', '.a/'])
  const bad = ['s3.example.com', 'ftp://h', 'http://h/bucket', 'http://a:b@h', 'http://h?x', 'h:1']
  accepts('endpoint', ['http://127.0.0.1:8333', 'https://s3.example.com/'], bad)
  t.end()
})

t.test('half a credential is a fault, at the half that is missing', (t) => {
  for (const [given, lacking] of [
    [{ access_key_id: 'AK' }, 'secret_access_key'],
    [{ access_key_id: '', secret_access_key: 'SK' }, 'access_key_id'],
  ] as const) {
    const { error } = s3.keys.safeParse({ bucket: 'files', ...given })
    t.match(error?.issues, [{ path: [lacking], message: /^is missing; write it, or remove / }])
  }
  const two = s3.keys.safeParse({ access_key_id: 'AK' })
  t.match(two.error?.issues, [{ path: ['bucket'] }, { path: ['secret_access_key'] }], 'both told')
  for (const block of [5, null, []]) t.equal(s3.keys.safeParse(block).error?.issues.length, 1)
  t.notOk(s3.keys.parse({ bucket: 'files', access_key_id: '' }).credentials)
  t.end()
})

t.test('its secret is known, and its memory is that of its parts', (t) => {
  const login = { access_key_id: 'AK', secret_access_key: 'SK' }
  const config = s3.keys.parse({ bucket: 'files', ...login, part_size: '8MiB', concurrency: 2 })
  t.strictSame(s3.secrets(config), ['SK'])
  t.strictSame(s3.secrets(s3.keys.parse({ bucket: 'files' })), [])
  t.equal(s3.uploadBytes(config), 16 * 2 ** 20)
  t.end()
})
