// src/store/disk-driver.ts: a folder in gateway.yaml.

import t from 'tap'
import { disk } from '../../src/store/disk-driver.ts'

t.test('a path is enough: a GiB of its file system is left to others', (t) => {
  t.strictSame(disk.keys.parse({ path: '/files' }), { path: '/files', reserveBytes: 2 ** 30 })
  t.equal(disk.keys.parse({ path: '/files', reserve: '0B' }).reserveBytes, 0)
  t.notOk(disk.keys.safeParse({}).success)
  t.end()
})
