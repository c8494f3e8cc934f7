// What is on disk: promised before it is acknowledged, taken over from the dead, left alone while its process lives.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, readFile, readdir, rename, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { CreditOrder } from '../../src/ledger/orders.ts'
import { openSpool } from '../../src/ledger/spool.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const order = (id: string): CreditOrder => ({
  kind: 'credit',
  ref: 'r',
  id,
  hash: 'h',
  amount: 9007199254740991,
  type: 'topup',
  meta: '{}',
  at: 1,
})

const spools = async (dir: string) =>
  (await readdir(dir)).filter((name) => name.startsWith('spool-'))

t.test('a killed process leaves its orders to the next start, torn last line or not', async (t) => {
  const dir = await tempDir(t)
  const module = new URL('../../src/ledger/spool.ts', import.meta.url)
  const code = `const { openSpool } = await import(${JSON.stringify(module.href)})
    const spool = await openSpool(${JSON.stringify(dir)})
    const order = ${JSON.stringify(order('a'))}
    await Promise.all(['a', 'b', 'c'].map((id) => spool.append({ ...order, id })))
    spool.remove('credit:r:b')
    await spool.append({ ...order, id: 'd' })
    console.log('ready')
    setInterval(() => undefined, 1000)`
  const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child.stdout, 'data')
  const spool = await openSpool(dir)
  t.same(await spool.takeOver(), [], 'a running process is left alone')
  child.kill('SIGKILL')
  await once(child, 'exit')
  const name = (await spools(dir)).find((one) => one.includes(`-${child.pid}-`)) ?? ''
  await appendFile(join(dir, name), '{"kind":"credit","ref":"r","id":"to')
  const other = await openSpool(dir)
  const taken = (await Promise.all([spool.takeOver(), other.takeOver()])).flat()
  t.same(taken, [order('a'), order('c'), order('d')], 'by one of two, exactly')
  t.equal((await spools(dir)).length, 2)
  await Promise.all([spool.close(), other.close()])
})

t.test('what is done leaves no file behind', async (t) => {
  const dir = await tempDir(t)
  const spool = await openSpool(dir)
  await spool.append(order('a'))
  t.equal(spool.size, 1)
  spool.remove('credit:r:a')
  await spool.close()
  t.same(await readdir(dir), [])
})

t.test(
  'a file of a machine that can not be asked is taken after a minute of silence',
  async (t) => {
    const dir = await tempDir(t)
    const dead = await openSpool(dir)
    await dead.append(order('a'))
    await dead.close()
    const [name = ''] = await spools(dir)
    const foreign = join(dir, 'spool-elsewhere-1-abcdef.ndjson')
    await rename(join(dir, name), foreign)
    const spool = await openSpool(dir)
    t.same(await spool.takeOver(), [])
    const longAgo = new Date(Date.now() - 61_000)
    await utimes(foreign, longAgo, longAgo)
    t.same(await spool.takeOver(), [order('a')])
    await spool.close()
  },
)

t.test("a dead process's orders stay on the disk until they are in the taker's file", async (t) => {
  const dir = await tempDir(t)
  const dead = await openSpool(dir)
  await dead.append(order('a'))
  await dead.close()
  const [name = ''] = await spools(dir)
  await rename(join(dir, name), join(dir, 'spool-elsewhere-1-abcdef.ndjson'))
  const longAgo = new Date(Date.now() - 61_000)
  await utimes(join(dir, 'spool-elsewhere-1-abcdef.ndjson'), longAgo, longAgo)
  const spool = await openSpool(dir)
  // Now no write to its own file can succeed.
  await spool.close()
  await t.rejects(spool.takeOver())
  const texts = (await spools(dir)).map((one) => readFile(join(dir, one), 'utf8'))
  t.match((await Promise.all(texts)).join(''), '"id":"a"')
})

t.test('late ones are kept apart', async (t) => {
  const dir = await tempDir(t)
  const spool = await openSpool(dir)
  await spool.late(order('a'))
  await spool.late(order('b'))
  t.equal(await spool.countLate(), 2)
  t.equal((await readFile(join(dir, 'late.ndjson'), 'utf8')).split('\n').length, 3)
  await spool.close()
})
