import { realpath, writeFile } from 'node:fs/promises'
import t from 'tap'
import { isMountedAlone } from '../../src/config/mounted.ts'

const lineOf = (path: string) => `611 598 8:1 ${path} ${path} ro,relatime - ext4 /dev/sda1 rw\n`

t.test('a file that is a mount point is told from one in a folder that is', async (t) => {
  const dir = await realpath(t.testdir({ 'my gateway.yaml': '', table: '', folder: '' }))
  const file = `${dir}/my gateway.yaml`
  await writeFile(`${dir}/table`, lineOf('/') + lineOf(file.replace(' ', '\\040')))
  await writeFile(`${dir}/folder`, lineOf('/') + lineOf(dir))
  t.equal(await isMountedAlone(file, `${dir}/table`), true)
  t.equal(await isMountedAlone(file, `${dir}/folder`), false)
  t.equal(await isMountedAlone(`${dir}/lacking`, `${dir}/table`), false)
  t.equal(await isMountedAlone(file, `${dir}/no-table`), false, 'not on Linux')
})

t.test('the table of this machine', async (t) => {
  t.equal(await isMountedAlone(import.meta.filename), false)
  if (process.platform === 'linux') t.equal(await isMountedAlone('/proc'), true)
})
