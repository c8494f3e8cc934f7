// `tollgate` on a Node that cannot read TypeScript, with the Node that `npm ci` brings and without it.

import { once } from 'node:events'
import { copyFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { childrenOf, runProcess, startProcess } from '../fixtures/process.ts'
import { redisServerPath } from '../fixtures/redis-server.ts'
import { root } from '../fixtures/source.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const wrapper = join(root, 'src/tollgate.cjs')

const run = (t: Test, ...words: readonly string[]) => runProcess(t, [process.execPath, ...words])

/** Fails to read the file, as Node 20 does. */
const asNode20 = (t: Test, file = wrapper) => {
  const code = `
Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })
process.execPath = '/usr/bin/node'
`
  const dir = t.testdir({ 'old.cjs': code })
  return ['--require', join(dir, 'old.cjs'), '--no-strip-types', file]
}

t.test('without another Node it says in one line what to run', async (t) => {
  const alone = join(await tempDir(t), 'tollgate.cjs')
  await copyFile(wrapper, alone)
  const { code, out, err } = await run(t, ...asNode20(t, alone), 'start')
  t.same([code, out], [1, ''])
  t.match(err, /^tollgate: this is Node 20\.20\.2, .*24 or later\. .*`npm start`.*\n$/)
})

t.test('it runs under the Node that npm has brought', async (t) => {
  const { code, out } = await run(t, ...asNode20(t), 'version')
  t.same([code, out], [0, `${(await manifest()).version}\n`])
  t.equal((await run(t, ...asNode20(t), 'strat')).code, 2)
})

async function start(t: Test) {
  const yaml = `
listen: { host: 127.0.0.1, port: 0 }
admin: { listen: 127.0.0.1:0 }
models: { demo: { targets: [demo] } }
`
  const config = join(await tempDir(t), 'gateway.yaml')
  await writeFile(config, yaml)
  const env = { ...process.env, REDIS_SERVER: await redisServerPath() }
  const { child, said } = startProcess(
    t,
    [process.execPath, ...asNode20(t), 'start', '--config', config],
    { env },
  )
  await said(/listening on /)
  const [gateway = 0] = await childrenOf(child.pid ?? 0)
  return { child, gateway }
}

t.test('a signal to end drains the gateway under that Node', async (t) => {
  const { child, gateway } = await start(t)
  child.kill('SIGTERM')
  t.same(await once(child, 'exit'), [0, null])
  t.throws(() => process.kill(gateway, 0), { code: 'ESRCH' })
})

t.test('if the gateway is killed, so is what started it', async (t) => {
  const { child, gateway } = await start(t)
  process.kill(gateway, 'SIGKILL')
  t.same(await once(child, 'exit'), [null, 'SIGKILL'])
})

t.test('it is the command line, if Node can run it', async (t) => {
  const { code, out } = await run(t, wrapper, 'version')
  t.same([code, out], [0, `${(await manifest()).version}\n`])
  t.equal((await run(t, wrapper, 'strat')).code, 2)
})

t.test('npm runs it, and the required engines are declared', async (t) => {
  t.match(await manifest(), {
    engines: { node: '>=24' },
    bin: { tollgate: 'src/tollgate.cjs' },
    scripts: {
      start: /^exec node (--\S+ )*src\/tollgate\.cjs start$/,
      tollgate: 'exec node src/tollgate.cjs',
    },
  })
})

async function manifest(): Promise<{ readonly version: string }> {
  return JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
}
