import { statfs } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { createDiskRoom } from '../../src/store/disk-room.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

t.test('a disk with less free space than the reserve has no room, one with more has', async (t) => {
  const folder = await tempDir(t)
  const { bavail, bsize } = await statfs(folder)
  const free = bavail * bsize
  await t.rejects(createDiskRoom(folder, 2 * free).check() ?? Promise.resolve(), {
    code: 'storage_unavailable',
    cause: { message: /bytes are free/ },
  })
  const room = createDiskRoom(folder, free / 2)
  await room.check()
  t.equal(room.check(), undefined, 'it is not asked again at once')
})

t.test('a full disk is checked again each time', async (t) => {
  const room = createDiskRoom(await tempDir(t), Number.MAX_SAFE_INTEGER)
  for (let i = 0; i < 2; i++) {
    await t.rejects(room.check() ?? Promise.resolve(), { code: 'storage_unavailable' })
  }
})

t.test('without a reserve nothing is checked, and a missing folder is not full', async (t) => {
  t.equal(createDiskRoom('/', 0).check(), undefined)
  await createDiskRoom(join(await tempDir(t), 'none'), 1).check()
})
