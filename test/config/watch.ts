import t from 'tap'
import type { Test } from 'tap'
import { mkdir, rename, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { digestsNow } from '../../src/config/read-files.ts'
import type { FileDigests } from '../../src/config/read-files.ts'
import { createLook, watchFiles } from '../../src/config/watch.ts'
import { endsByHand } from '../fixtures/hand-clock.ts'
import { tempDir } from '../fixtures/temp-dir.ts'
import { until } from '../fixtures/until.ts'

/** Reads the files again at each change, as a reload does. */
async function watching(t: Test, paths: readonly string[]) {
  let files: FileDigests = await digestsNow(paths)
  const state = { isOn: true, seen: [] as FileDigests[] }
  const watch = watchFiles({
    files: () => files,
    isOn: () => state.isOn,
    async onChange() {
      files = await digestsNow(paths)
      state.seen.push(files)
    },
    everyMs: 10,
  })
  t.teardown(() => watch.stop())
  return { state, watch }
}

t.test('a file that is written, replaced, removed or made anew is a change', async (t) => {
  const dir = await tempDir(t)
  const file = join(dir, 'gateway.yaml')
  await writeFile(file, 'a')
  const { state } = await watching(t, [file])
  await writeFile(file, 'b')
  await until(() => state.seen.length === 1)
  await writeFile(join(dir, 'new'), 'c')
  await rename(join(dir, 'new'), file)
  await until(() => state.seen.length === 2)
  await rename(file, join(dir, 'away'))
  await until(() => state.seen.length === 3)
  await writeFile(file, 'c')
  await until(() => state.seen.length === 4)
})

t.test('so is a link above the file that is put elsewhere, as Kubernetes does', async (t) => {
  const dir = await tempDir(t)
  for (const name of ['one', 'two']) {
    await mkdir(join(dir, name))
    await writeFile(join(dir, name, 'gateway.yaml'), name)
  }
  await symlink('one', join(dir, '..data'))
  await symlink('..data/gateway.yaml', join(dir, 'gateway.yaml'))
  const { state } = await watching(t, [join(dir, 'gateway.yaml')])
  await symlink('two', join(dir, '..data_tmp'))
  await rename(join(dir, '..data_tmp'), join(dir, '..data'))
  await until(() => state.seen.length === 1)
})

t.test('a file that is being written does not count until it rests', async (t) => {
  const file = join(await tempDir(t), 'gateway.yaml')
  await writeFile(file, 'old')
  let files = await digestsNow([file])
  let changes = 0
  const onChange = async () => {
    files = await digestsNow([file])
    changes++
  }
  const look = createLook({ files: () => files, onChange })
  await look()
  for (const text of ['', 'n', 'ne', 'new']) {
    await writeFile(file, text)
    await look()
    t.equal(changes, 0, text)
  }
  await look()
  t.equal(changes, 1)
  await look()
  t.equal(changes, 1)
})

t.test('a file that is back to what it was is no change', async (t) => {
  const file = join(await tempDir(t), 'gateway.yaml')
  await writeFile(file, 'old')
  const files = await digestsNow([file])
  const look = createLook({ files: () => files, onChange: async () => t.fail('a change') })
  await writeFile(file, 'new')
  await look()
  await writeFile(file, 'old')
  await look()
  await look()
})

t.test('it looks only while it is on, and no more when it has stopped', async (t) => {
  const file = join(await tempDir(t), 'gateway.yaml')
  await writeFile(file, 'a')
  const { state, watch } = await watching(t, [file])
  state.isOn = false
  await writeFile(file, 'b')
  const other = join(await tempDir(t), 'other')
  await writeFile(other, 'a')
  const beside = await watching(t, [other])
  await writeFile(other, 'b')
  await until(() => beside.state.seen.length === 1)
  t.same(state.seen, [])
  state.isOn = true
  await until(() => state.seen.length === 1)
  await watch.stop()
  await writeFile(file, 'c')
  await writeFile(other, 'c')
  await until(() => beside.state.seen.length === 2)
  t.equal(state.seen.length, 1)
})

t.test('it stops, also when a reload that it has begun never ends', async (t) => {
  const file = join(await tempDir(t), 'gateway.yaml')
  await writeFile(file, 'a')
  const files = await digestsNow([file])
  let hasBegun = false
  const onChange = () => {
    hasBegun = true
    return new Promise<never>(() => undefined)
  }
  const watch = watchFiles({ files: () => files, isOn: () => true, onChange, everyMs: 10 })
  await writeFile(file, 'b')
  await until(() => hasBegun)
  t.ok(await endsByHand(t, () => watch.stop()))
})
