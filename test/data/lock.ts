// src/data/lock.ts: one gateway for a folder, one process for a name, and locks of dead processes do not count.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, symlink, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import t from 'tap'
import { isRunning, lockDataFolder, processStart, tryLockName } from '../../src/data/lock.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

for (const platform of ['linux', 'darwin'] as const) {
  t.test(`${platform}: a second lock on a folder is refused, by any name of it`, async (t) => {
    const folder = await tempDir(t)
    await mkdir(join(folder, 'data'))
    await symlink('data', join(folder, 'other'))
    const lock = await lockDataFolder(join(folder, 'data'), { platform })
    await t.rejects(lockDataFolder(join(folder, 'other'), { platform }), /another gateway uses/)
    await lock.release()
    const again = await lockDataFolder(join(folder, 'other'), { platform })
    await again.release()
  })

  t.test(`${platform}: a lock ends with its process, even by kill -9`, async (t) => {
    const folder = await tempDir(t)
    const module = resolve(import.meta.dirname, '../../src/data/lock.ts')
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

t.test("another user's process is alive", async (t) => {
  const module = resolve(import.meta.dirname, '../../src/data/lock.ts')
  // Root may signal every process, so this runs as another user. Only root can own process 1.
  const script = `const { isRunning } = await import(${JSON.stringify(module)})
    if (process.getuid() === 0) process.setuid(65534)
    console.log(isRunning(1), isRunning(2 ** 30))`
  const other = spawn(process.execPath, ['--input-type=module', '-e', script])
  t.teardown(() => other.kill('SIGKILL'))
  t.equal((await text(other.stdout)).trim(), 'true false')
})

t.test('of many that want a name at once, one gets it', async (t) => {
  const name = `tollgate-test-${process.pid}`
  const locks = await Promise.all(Array.from({ length: 20 }, () => tryLockName(name)))
  const held = locks.filter((lock) => lock !== undefined)
  t.equal(held.length, 1)
  await Promise.all(held.map((lock) => lock.release()))
})

t.test('darwin: a lock file that a power cut left empty belongs to nobody', async (t) => {
  const folder = await tempDir(t)
  await writeFile(join(folder, 'lock'), '')
  const lock = await lockDataFolder(folder, { platform: 'darwin' })
  await lock.release()
  t.notOk(isRunning(0))
})

t.test(
  'the start time of a process is always the same, and differs between processes',
  { skip: process.platform === 'linux' ? false : 'only Linux tells' },
  async (t) => {
    const other = spawn('sleep', ['60'])
    t.teardown(() => other.kill('SIGKILL'))
    const own = processStart(process.pid)
    t.match(own, /^[0-9a-f]{8}\.\d+$/)
    t.equal(processStart(process.pid), own)
    t.not(processStart(other.pid ?? 0), own)
    other.kill('SIGKILL')
    await once(other, 'exit')
    t.equal(processStart(other.pid ?? 0), '')
  },
)
