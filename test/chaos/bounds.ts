// A run of chaos ends, whatever hangs.

import t from 'tap'
import { Bounds } from '../../scripts/chaos/bounds.ts'

t.test('work that does not end is left over, and nobody waits for it', async (t) => {
  const bounds = new Bounds()
  t.equal(await bounds.wait('quick', 10_000, Promise.resolve(7)), 7)
  await t.rejects(bounds.wait('bad', 10_000, Promise.reject(new Error('it fails'))), /it fails/)
  t.strictSame(bounds.left, [])
  const hanging = Promise.withResolvers<number>()
  t.equal(await bounds.wait('a customer', 20, hanging.promise), undefined)
  t.strictSame(bounds.left, ['left over: a customer, after 0.02 s'])
  // A failure that comes later disturbs nobody.
  hanging.reject(new Error('too late'))
})
