import t from 'tap'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { digestsNow, ReadFiles, sameDigests } from '../../src/config/read-files.ts'

t.test('a file that has another content, has gone or has come, has another digest', async (t) => {
  const dir = t.testdir({ a: 'one', b: 'two' })
  const [a, b, none] = ['a', 'b', 'none'].map((name) => join(dir, name))
  const files = new ReadFiles()
  const part = files.part()
  t.equal((await files.read(String(a))).toString(), 'one')
  await part.read(String(b))
  await t.rejects(part.read(String(none)), { code: 'ENOENT' })
  t.same([...files.digests.keys()], [a, b, none], 'what a part has read, the whole has')
  t.same([...part.digests.keys()], [b, none])
  const same = async () => sameDigests(await digestsNow(files.digests.keys()), files.digests)
  t.ok(await same())
  await writeFile(String(none), '')
  t.notOk(await same())
  await rm(String(none))
  t.ok(await same())
  await writeFile(String(b), 'owt')
  t.notOk(await same())
  t.not(files.digest, part.digest)
})
