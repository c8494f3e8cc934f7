// src/data-folder.ts: one gateway a folder, and a token that is made once and read by its owner alone.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import t from 'tap'
import {
  ensureAdminToken,
  ensureDataFolder,
  lockDataFolder,
  tryLockName,
} from '../src/data-folder.ts'
import { tempDir } from './fixtures/temp-dir.ts'

const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)

t.test('the folder is made, and made private where it was there', async (t) => {
  const folder = await tempDir(t)
  await ensureDataFolder(join(folder, 'a/b'))
  t.equal(await mode(join(folder, 'a/b')), '700')
  await mkdir(join(folder, 'open'), { mode: 0o755 })
  await ensureDataFolder(join(folder, 'open'))
  t.equal(await mode(join(folder, 'open')), '700')
  await writeFile(join(folder, 'file'), '')
  await t.rejects(ensureDataFolder(join(folder, 'file')), { code: 'EEXIST' })
})

for (const platform of ['linux', 'darwin'] as const) {
  t.test(`${platform}: the second lock on a folder is refused, by any name of it`, async (t) => {
    const folder = await tempDir(t)
    await mkdir(join(folder, 'data'))
    await symlink('data', join(folder, 'other'))
    const lock = await lockDataFolder(join(folder, 'data'), { platform })
    await t.rejects(lockDataFolder(join(folder, 'other'), { platform }), /another gateway uses/)
    await lock.release()
    const again = await lockDataFolder(join(folder, 'other'), { platform })
    await again.release()
  })

  t.test(`${platform}: a lock goes with its process, even by kill -9`, async (t) => {
    const folder = await tempDir(t)
    const module = resolve(import.meta.dirname, '../src/data-folder.ts')
    const script = `const { lockDataFolder } = await import(${JSON.stringify(module)})
      await lockDataFolder(${JSON.stringify(folder)}, { platform: '${platform}' })
      console.log('locked')
      setInterval(() => {}, 1000)`
    const other = spawn(process.execPath, ['--input-type=module', '-e', script])
    t.teardown(() => other.kill('SIGKILL'))
    await once(other.stdout, 'data')
    await t.rejects(lockDataFolder(folder, { platform }), /another gateway uses/)
    other.kill('SIGKILL')
    await once(other, 'exit')
    const lock = await lockDataFolder(folder, { platform })
    await lock.release()
  })
}

t.test('of many that want a name at once, one gets it', async (t) => {
  const name = `tollgate-test-${process.pid}`
  const locks = await Promise.all(Array.from({ length: 20 }, () => tryLockName(name)))
  const held = locks.filter((lock) => lock !== undefined)
  t.equal(held.length, 1)
  await Promise.all(held.map((lock) => lock.release()))
})

t.test('the admin token: the one given, else one made once, for the owner alone', async (t) => {
  const folder = await tempDir(t)
  t.equal(await ensureAdminToken(folder, 'given'), 'given')
  t.strictSame(await readdir(folder), [])
  const tokens = await Promise.all(Array.from({ length: 8 }, () => ensureAdminToken(folder, '')))
  t.equal(new Set(tokens).size, 1)
  t.match(tokens[0], /^[\w-]{43}$/)
  const path = join(folder, 'admin-token')
  t.equal(await mode(path), '600')
  t.equal((await readFile(path, 'utf8')).trim(), tokens[0])
  t.equal(await ensureAdminToken(folder, ''), tokens[0])
  t.strictSame(await readdir(folder), ['admin-token'])
  await writeFile(path, '\n')
  await t.rejects(ensureAdminToken(folder, ''), /is empty/)
})
