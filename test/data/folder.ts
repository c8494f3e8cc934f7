// src/data/folder.ts: private, with a token that is made once and that only its owner can read.

import { chmod, mkdir, readdir, readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { ensureAdminToken, ensureDataFolder } from '../../src/data/folder.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8)

t.test('the folder is made, or made private if it exists', async (t) => {
  const folder = await tempDir(t)
  await ensureDataFolder(join(folder, 'a/b'))
  t.equal(await mode(join(folder, 'a/b')), '700')
  await mkdir(join(folder, 'open'), { mode: 0o755 })
  await ensureDataFolder(join(folder, 'open'))
  t.equal(await mode(join(folder, 'open')), '700')
  await writeFile(join(folder, 'file'), '')
  await t.rejects(ensureDataFolder(join(folder, 'file')), { code: 'EEXIST' })
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

t.test('a folder with other files is refused and left as it is', async (t) => {
  const folder = await tempDir(t)
  await mkdir(join(folder, 'home'), { mode: 0o755 })
  await writeFile(join(folder, 'home', 'letter.txt'), '')
  await t.rejects(ensureDataFolder(join(folder, 'home')), /has other things in it/)
  t.equal(await mode(join(folder, 'home')), '755')
  await mkdir(join(folder, 'disk/lost+found'), { recursive: true })
  await ensureDataFolder(join(folder, 'disk'))
  await writeFile(join(folder, 'disk', '.gitkeep'), '')
  await writeFile(join(folder, 'disk', '.admin-token-0123456789ab'), 'x')
  await ensureDataFolder(join(folder, 'disk')) // A gateway was killed while it made its token.
  await writeFile(join(folder, 'disk', 'admin-token'), 'x')
  await writeFile(join(folder, 'disk', 'notes.txt'), '')
  await ensureDataFolder(join(folder, 'disk'))
})

t.test("a system folder is not taken for a gateway's because of one name", async (t) => {
  const folder = await tempDir(t)
  for (const names of [
    ['bin', 'lib', 'share'],
    ['lock', 'log', 'spool', 'lib'],
  ]) {
    const path = join(folder, names.join('-'))
    for (const name of names) await mkdir(join(path, name), { recursive: true })
    await chmod(path, 0o755)
    await t.rejects(ensureDataFolder(path), /has other things in it/, names.join(' '))
    t.equal(await mode(path), '755')
    await chmod(path, 0o750)
    await t.rejects(ensureDataFolder(path), /has other things in it/, 'a group reads it')
    await chmod(path, 0o700)
    await ensureDataFolder(path) // An operator's own file; the gateway there has its token in the configuration.
  }
  await mkdir(join(folder, 'volume/spool'), { recursive: true })
  await mkdir(join(folder, 'volume/redis'))
  await writeFile(join(folder, 'volume/redis.json'), '{}')
  await writeFile(join(folder, 'volume/lock.123'), '123')
  await chmod(join(folder, 'volume'), 0o755)
  await ensureDataFolder(join(folder, 'volume'))
  t.equal(await mode(join(folder, 'volume')), '700')
})
