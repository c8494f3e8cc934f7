import { mkdir, readdir, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { judgeSpace, watchFolders } from '../../../src/cli/doctor/disk.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'

t.test('the space is that of a folder that does not exist yet, too', async (t) => {
  const dir = await tempDir(t)
  const path = join(dir, 'not', 'yet')
  const { verdict, detail } = await judgeSpace(path, 0)
  t.match(verdict, /^(ok|warn)$/)
  t.match(detail, /^\/.*\/not\/yet has \d+\.\d GiB free/)
})

t.test('the space for files is what is free beyond the reserve', async (t) => {
  const dir = await tempDir(t)
  const { bavail, bsize } = await statfs(dir)
  const free = bavail * bsize
  const judge = (reserveBytes: number) => judgeSpace(dir, reserveBytes)
  t.match(await judge(2 ** 60), {
    verdict: 'fail',
    detail: /less than store\.disk\.reserve, .* refused/,
  })
  t.match(await judge(free - 2 ** 29), {
    verdict: 'warn',
    detail: /reserve.*little is left for files/,
  })
  t.equal((await judge(0)).verdict, free < 2 ** 30 ? 'warn' : 'ok')
})

t.test('folders that the checks made are removed, unless something is in them', async (t) => {
  const dir = await tempDir(t)
  const store = join(dir, 'data', 'store')
  const remove = await watchFolders(store)
  for (const name of ['doctor', '.tmp']) await mkdir(join(store, name), { recursive: true })
  await remove()
  t.strictSame(await readdir(dir), [])

  const again = await watchFolders(store)
  for (const name of ['doctor', '.tmp']) await mkdir(join(store, name), { recursive: true })
  await writeFile(join(store, 'file'), "somebody else's")
  await again()
  t.strictSame(await readdir(store), ['file'])
})

t.test('folders that existed before stay', async (t) => {
  const store = await tempDir(t)
  await mkdir(join(store, 'doctor'))
  await (
    await watchFolders(store)
  )()
  t.strictSame(await readdir(store), ['doctor'])
})
