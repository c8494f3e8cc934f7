// What is on disk: written before it is acknowledged, taken over from dead processes, left alone while its process
// lives.

import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import {
  appendFile,
  readFile,
  readdir,
  rename,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import type { CreditOrder } from '../../src/ledger/orders.ts'
import { openSpool } from '../../src/ledger/spool.ts'
import { processStart } from '../../src/data/lock.ts'
import { fillDisk, freeDisk, noFullDisk } from '../fixtures/full-disk.ts'
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

const container = ['unshare', '--pid', '--fork', '--kill-child', '--mount-proc'] as const
const canContain = spawnSync(container[0], [...container.slice(1), 'true']).status === 0

/** As in a container: the process has pid 1, and sees no other. */
function contained(t: Test, code: string) {
  const module = new URL('../../src/ledger/spool.ts', import.meta.url)
  const script = `const { openSpool } = await import(${JSON.stringify(module.href)})\n${code}`
  const words = [...container.slice(1), process.execPath, '--input-type=module', '-e', script]
  const child = spawn(container[0], words, { stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

t.test(
  'a container that is started again takes up at once what the killed one left, though both are pid 1',
  { skip: canContain ? false : 'needs unshare(1) with the right to use it' },
  async (t) => {
    const dir = await tempDir(t)
    const killed = contained(
      t,
      `const spool = await openSpool(${JSON.stringify(dir)})
      await spool.append(${JSON.stringify(order('a'))})
      console.log(process.pid)
      setInterval(() => undefined, 1000)`,
    )
    t.equal(String(await once(killed.stdout, 'data')), '1\n')
    killed.kill('SIGKILL')
    await once(killed, 'exit')
    const next = contained(
      t,
      `const spool = await openSpool(${JSON.stringify(dir)})
      console.log(JSON.stringify([process.pid, await spool.takeOver()]))`,
    )
    t.same(JSON.parse(String(await once(next.stdout, 'data'))), [1, [order('a')]])
  },
)

t.test(
  'a process is known by its start, not by its pid alone',
  { skip: processStart(process.pid) === '' ? 'this system does not tell starts' : false },
  async (t) => {
    const dir = await tempDir(t)
    const left = await openSpool(dir)
    await left.append(order('a'))
    await left.close()
    const spool = await openSpool(dir)
    t.same(await spool.takeOver(), [], 'this process lives')
    const earlier = left.path.replace(processStart(process.pid), '0a1b2c3d.4711')
    await rename(left.path, earlier)
    t.same(await spool.takeOver(), [order('a')], 'the one before it that had its pid does not')
    t.notOk(existsSync(earlier))
    await spool.close()
  },
)

const noDevFull = process.platform === 'linux' ? false : 'needs /dev/full'

/** Its disk refuses all writes, until the next try. */
async function openOnFullDisk(t: Test) {
  const dir = await tempDir(t)
  const spool = await openSpool(dir)
  await symlink('/dev/full', `${spool.path}.new`)
  await rm(spool.path)
  await t.rejects(spool.touch())
  return { dir, spool }
}

t.test(
  'what the dead left is taken up on a full disk, too, and stays on it',
  { skip: noDevFull },
  async (t) => {
    const { dir, spool } = await openOnFullDisk(t)
    const name = `spool-${hostname().replaceAll(/[^\w.]/g, '_')}-4194305-abcdef.ndjson`
    await writeFile(join(dir, name), `${JSON.stringify(order('a'))}\n`)
    t.same(await spool.takeOver(), [order('a')])
    t.match(spool, { size: 1, unwritten: 1 })
    const left = await spools(dir)
    t.equal(left.length, 1)
    t.match(await readFile(join(dir, left[0] ?? ''), 'utf8'), /"id":"a"/)
    t.same(await spool.takeOver(), [], 'once')
    await spool.retry()
    const [own, ...others] = await spools(dir)
    t.same(others, [], 'and then it is in the own file')
    t.match(await readFile(join(dir, own ?? ''), 'utf8'), /"id":"a"/)
    await spool.close()
  },
)

t.test(
  'what waits in memory has a bound, and is all written in the end',
  { skip: noDevFull },
  async (t) => {
    const { spool } = await openOnFullDisk(t)
    const append = (i: number) => spool.append(order(`${i}`)).catch(() => undefined)
    await Promise.all(Array.from({ length: 9999 }, (_, i) => append(i)))
    t.match(spool, { unwritten: 9999, isFull: false })
    await append(9999)
    t.match(spool, { unwritten: 10_000, isFull: true })
    await spool.retry()
    t.match(spool, { size: 10_000, unwritten: 0, isFull: false })
    await spool.close()
  },
)

t.test('what is done leaves no file behind', async (t) => {
  const dir = await tempDir(t)
  const spool = await openSpool(dir)
  await spool.append(order('a'))
  t.equal(spool.size, 1)
  spool.remove('credit:r:a')
  await spool.close()
  t.same(await readdir(dir), [])
})

/** A folder with an order of a process on another machine. */
async function leftElsewhere(t: Test) {
  const dir = await tempDir(t)
  const dead = await openSpool(dir)
  await dead.append(order('a'))
  await dead.close()
  const foreign = join(dir, 'spool-elsewhere-1-abcdef.ndjson')
  await rename(dead.path, foreign)
  const longAgo = new Date(Date.now() - 61_000)
  return { dir, spool: await openSpool(dir), fallSilent: () => utimes(foreign, longAgo, longAgo) }
}

t.test('the file of an unknown machine is taken after a minute of silence', async (t) => {
  const { spool, fallSilent } = await leftElsewhere(t)
  t.same(await spool.takeOver(), [])
  await fallSilent()
  t.same(await spool.takeOver(), [order('a')])
  await spool.close()
})

t.test("a dead process's orders stay on the disk until they are in the taker's file", async (t) => {
  const { dir, spool, fallSilent } = await leftElsewhere(t)
  await fallSilent()
  // From now on no write to its own file can succeed.
  await spool.close()
  await spool.takeOver()
  const texts = (await spools(dir)).map((one) => readFile(join(dir, one), 'utf8'))
  t.match((await Promise.all(texts)).join(''), '"id":"a"')
})

t.test('late ones that a full disk refuses leave no half line', { skip: noFullDisk }, async (t) => {
  const dir = await tempDir(t)
  const module = new URL('../../src/ledger/spool.ts', import.meta.url)
  const script = `const { openSpool } = await import(${JSON.stringify(module.href)})
    const spool = await openSpool(${JSON.stringify(dir)})
    const late = (id) => spool.late({ ...${JSON.stringify(order(''))}, id })
    await late('a')
    for await (const [char] of process.stdin) {
      const one = late(String.fromCharCode(char))
      console.log(await one.then(() => 'kept', () => 'refused'))
    }`
  const words = ['-i', process.execPath, '--input-type=module', '-e', script]
  const child = spawn('env', words, { stdio: ['pipe', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  const late = async (id: string) => {
    child.stdin.write(id)
    return String(await once(child.stdout, 'data')).trim()
  }
  t.equal(await late('b'), 'kept')
  const { size } = await stat(join(dir, 'late.ndjson'))
  fillDisk(child.pid ?? 0, size + 5)
  t.equal(await late('c'), 'refused')
  freeDisk(child.pid ?? 0)
  t.equal(await late('d'), 'kept')
  const text = await readFile(join(dir, 'late.ndjson'), 'utf8')
  const ids = text
    .trim()
    .split('\n')
    .map((line) => (JSON.parse(line) as CreditOrder).id)
  t.same(ids, ['a', 'b', 'd'])
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
