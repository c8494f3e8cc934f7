import t from 'tap'
import type { SpawnOptions } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync } from 'node:fs'
import {
  chmod,
  lstat,
  mkdir,
  readdir,
  readFile,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { outlivesKills } from './fixtures/aof.ts'
import { startBackend } from './fixtures/backend.ts'
import { endless } from './fixtures/backend-model.ts'
import { adminToken, spawnGateway } from './fixtures/gateway.ts'
import { runProcess, startProcess } from './fixtures/process.ts'
import { startRedis } from './fixtures/redis-server.ts'
import { root } from './fixtures/source.ts'
import { eventually, until } from './fixtures/until.ts'

const main = fileURLToPath(new URL('../src/tollgate.cjs', import.meta.url))

interface Manifest {
  readonly scripts: { readonly start: string; readonly tollgate: string }
}

const tollgate = (t: Test, words: readonly string[], options: SpawnOptions = {}) =>
  runProcess(t, [process.execPath, main, ...words], options)

/** Nothing can be written to it: its disk is full. */
const full = existsSync('/dev/full') ? openSync('/dev/full', 'w') : undefined
const skip = full === undefined ? 'this system has no /dev/full' : false

const hi = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: true }
const yamlFor = (url: string) => `models: { m: { targets: [{ url: '${url}' }] } }`

t.test('`start` is the default command, also behind a flag', async (t) => {
  const file = `${t.testdir({ 'bad.yaml': 'modles: {}\n' })}/bad.yaml`
  for (const args of [['start', '--config', file], ['--config', file], [`--config=${file}`]]) {
    const { code, err } = await tollgate(t, args)
    t.equal(code, 78, args.join(' '))
    t.match(err, /bad\.yaml:1:1: modles: unknown key/)
  }
})

t.test('what another user can write to is no compile cache', async (t) => {
  const folder = await realpath(t.testdir())
  const cache = join(folder, `tollgate-cache-${process.getuid?.()}`)
  const env = { ...process.env, TMPDIR: folder, NODE_COMPILE_CACHE: undefined }
  const run = () => tollgate(t, ['version'], { env })
  await run()
  t.ok((await readdir(cache)).length > 0, 'a folder of its own is')
  t.equal((await lstat(cache)).mode & 0o777, 0o700)
  await rm(cache, { recursive: true })
  await mkdir(cache)
  await chmod(cache, 0o777)
  t.equal((await run()).code, 0)
  t.same(await readdir(cache), [])
  await rm(cache, { recursive: true })
  await mkdir(join(folder, 'elsewhere'))
  await symlink('elsewhere', cache)
  t.equal((await run()).code, 0)
  t.same(await readdir(join(folder, 'elsewhere')), [])
})

t.test('a full disk takes no lines, and does not end the gateway', { skip }, async (t) => {
  const file = `${t.testdir({ 'bad.yaml': 'modles: {}\n' })}/bad.yaml`
  const { code } = await tollgate(t, ['--config', file], { stdio: ['ignore', 'pipe', full] })
  t.equal(code, 78, 'that of a configuration at fault')
})

t.test('a full disk at a command: one line, 1', { skip }, async (t) => {
  const file = `${t.testdir({ 'good.yaml': yamlFor('http://a/v1') })}/good.yaml`
  for (const words of [['help'], ['version'], ['check', file], ['check', file, '--print']]) {
    const { code, err } = await tollgate(t, words, { stdio: ['ignore', full, 'pipe'] })
    t.equal(code, 1, words.join(' '))
    t.match(err, /^tollgate: .*ENOSPC.*\n$/)
  }
})

t.test("a full disk at a command's failure message: still its exit code", { skip }, async (t) => {
  t.equal((await tollgate(t, ['strat'], { stdio: ['ignore', 'ignore', full] })).code, 2)
})

t.test('a reader that closes its end is no error', async (t) => {
  const file = `${t.testdir({ 'good.yaml': yamlFor('http://a/v1') })}/good.yaml`
  for (const words of ['help', `check '${file}' --print`]) {
    const line = `"${process.execPath}" "${main}" ${words} | true; exit "\${PIPESTATUS[0]}"`
    t.same(await runProcess(t, ['bash', '-c', line]), { code: 0, out: '', err: '' }, words)
  }
})

t.test("a failure message's reader that has gone: still its exit code", async (t) => {
  const line = `"${process.execPath}" "${main}" strat 2>&1 >/dev/null | true; exit "\${PIPESTATUS[0]}"`
  t.equal((await runProcess(t, ['bash', '-c', line])).code, 2)
})

t.test('books that nobody reads to the end are not called right', async (t) => {
  const gateway = await spawnGateway(t, { yaml: yamlFor('http://127.0.0.1:1/v1') })
  const rows = Array.from({ length: 3000 }, (_, i) => `2026-01-01,model ${i},1,1\n`)
  const file = join(t.testdir(), 'count.csv')
  await writeFile(file, `day,model,prompt_tokens,completion_tokens\n${rows.join('')}`)
  const line = `"${process.execPath}" "${main}" reconcile '${file}' --admin ${gateway.adminUrl} | head -1; exit "\${PIPESTATUS[0]}"`
  const env = { ...process.env, TOLLGATE_ADMIN_TOKEN: adminToken }
  t.match(await runProcess(t, ['bash', '-c', line], { env }), { code: 1, out: /^DAY/, err: '' })
  const audit = `"${process.execPath}" "${main}" audit --admin ${gateway.adminUrl}`
  t.match(await runProcess(t, ['bash', '-c', audit], { env }), { code: 0 })
  const unread = `${audit} | true; exit "\${PIPESTATUS[0]}"`
  t.match(await runProcess(t, ['bash', '-c', unread], { env }), { code: 1, err: '' })
})

t.test('doctor removes its object when the reader of its lines ends', async (t) => {
  const folder = t.testdir()
  const store = `store: { disk: { path: '${folder}/store', reserve: 1MiB } }`
  const yaml = `redis: redis://127.0.0.1:1\n${store}\n${yamlFor('http://127.0.0.1:1/v1')}`
  await writeFile(`${folder}/g.yaml`, yaml)
  // The third line, of the object that was written, is the first that nobody reads.
  const line = `"${process.execPath}" "${main}" doctor '${folder}/g.yaml' | head -2; exit "\${PIPESTATUS[0]}"`
  const { code, out, err } = await runProcess(t, ['bash', '-c', line])
  t.match(out, /^ok .*\nfail +redis: .*\n$/)
  t.match(err, /Stopped before every check was done/)
  t.equal(code, 1, 'not all is well')
  t.same(await readdir(folder), ['g.yaml'], 'no object, and no folder')
})

t.test('colours only on a terminal', async (t) => {
  const file = `${t.testdir({ 'good.yaml': yamlFor('http://a/v1') })}/good.yaml`
  const check = async (env: NodeJS.ProcessEnv) =>
    (await tollgate(t, ['check', file], { env: { PATH: process.env.PATH, ...env } })).out
  t.equal(await check({}), '0 problems\n', 'a pipe')
  t.equal(await check({ FORCE_COLOR: '1' }), '\u001b[32m0 problems\u001b[39m\n')
})

for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  t.test(`${signal} drains; a later one does not wait for streams`, async (t) => {
    const backend = await startBackend(t, endless({ gapMs: 5 }))
    const gateway = await spawnGateway(t, { yaml: yamlFor(backend.url) })
    const { key } = await gateway.account(1_000_000)
    const running = await gateway.call('/v1/chat', key, hi)
    t.equal(running.status, 200)
    const broken = t.rejects(running.text())
    const exited = once(gateway.child, 'exit')
    const sentAt = performance.now()
    gateway.child.kill(signal)
    let status = 200
    while (status !== 503) status = (await fetch(`${gateway.adminUrl}/readyz`)).status
    await until(async () => !gateway.child.kill(signal) || gateway.child.exitCode !== null)
    t.same(await exited, [1, null])
    t.ok(performance.now() - sentAt >= 500, 'before, those of the terminal and of npm are one')
    await broken
  })
}

t.test('a signal that npm gets reaches the gateway, which then drains', async (t) => {
  const { scripts } = JSON.parse(await readFile(`${root}/package.json`, 'utf8')) as Manifest
  const redis = await startRedis(t)
  const yaml = `
listen: { host: 127.0.0.1, port: 0 }
admin: { listen: { host: 127.0.0.1, port: 0 } }
redis: unix://${redis.socket}
${yamlFor('http://127.0.0.1:1/v1')}
`
  const file = `${t.testdir({ 'g.yaml': yaml })}/g.yaml`
  // npm runs the script in this shell, and sends it the signals that npm itself gets.
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` }
  const words = ['sh', '-c', `${scripts.start} --config ${file}`]
  const shell = startProcess(t, words, { cwd: root, env })
  await shell.said(/"msg":"listening"/)
  t.equal(await shell.stop(), 0)
  t.match(shell.stdout.at(-1), /"msg":"stopped"/)
  t.match(scripts.tollgate, /^exec node /, 'it reaches a command, too')
})

/** The log line that every gateway writes, as this command shows it. */
async function logged(t: Test, command: readonly string[]): Promise<string> {
  return (await startProcess(t, command).said(/.*Redis is connected.*/))[0]
}

t.test('the log is for people on a terminal, JSON elsewhere and where asked for', async (t) => {
  const redis = await startRedis(t)
  const yaml = `
listen: { host: 127.0.0.1, port: 0 }
admin: { listen: { host: 127.0.0.1, port: 0 } }
redis: unix://${redis.socket}
${yamlFor('http://127.0.0.1:1/v1')}
`
  // A folder for each: two gateways on one data folder do not start.
  const dir = t.testdir({
    shown: { 'g.yaml': yaml },
    asked: { 'g.yaml': `${yaml}log: { format: json }\n` },
    piped: { 'g.yaml': yaml },
  })
  const args = (folder: string) => [process.execPath, main, '--config', `${dir}/${folder}/g.yaml`]
  // `script` of util-linux runs a command on a terminal of its own.
  const terminal = (folder: string) =>
    logged(t, ['script', '-qefc', `exec ${args(folder).join(' ')}`, '/dev/null'])
  t.match(await terminal('shown'), /^\d\d:\d\d:\d\d info Redis is connected/)
  const json = { level: 'info', msg: 'Redis is connected' }
  t.match(JSON.parse(await terminal('asked')), json)
  t.match(JSON.parse(await logged(t, args('piped'))), json)
})

t.test(
  'stdout is JSON lines alone where it is no terminal, with a line for each step of a life',
  async (t) => {
    // Of a Redis without a file on disk, a start warns.
    const redis = await startRedis(t, { args: outlivesKills })
    const gateway = await spawnGateway(t, { redis, yaml: yamlFor('http://127.0.0.1:1/v1') })
    await fetch(`${gateway.adminUrl}/metrics`)
    t.equal(await gateway.stop(), 0)
    const said = gateway.stdout.map((line) => JSON.parse(line) as { level: string; msg: string })
    const steps = said.map(({ msg }) => msg)
    t.same(steps, ['starting', 'Redis is connected', 'listening', 'draining', 'stopped'])
  },
)

t.test(
  'SIGHUP takes up a changed file and cuts no stream, whatever the file is like',
  async (t) => {
    const backend = await startBackend(t, endless({ gapMs: 5 }))
    const yaml = `${yamlFor(backend.url)}\nreload: signal\n`
    const gateway = await spawnGateway(t, { yaml })
    const { key } = await gateway.account(1_000_000)
    const leave = new AbortController()
    const running = await gateway.call('/v1/chat', key, hi, leave.signal)
    const told = async (word: string) => {
      gateway.child.kill('SIGHUP')
      const line = await eventually(async () => gateway.stdout.find((one) => one.includes(word)))
      return JSON.parse(line) as object
    }
    t.match(await told('has not changed'), { level: 'info', cause: 'SIGHUP' })
    await gateway.rewrite(`${yaml}drain: soon\n`)
    t.match(await told('last good one'), { level: 'error', problems: [/drain/] })
    await gateway.rewrite(`${yaml}drain: 7s\n`)
    t.match(await told('was taken over'), { level: 'info', changed: ['drain: "30s" → "7s"'] })
    const reader = running.body?.getReader()
    t.equal((await reader?.read())?.done, false, 'the stream goes on')
    leave.abort()
  },
)

t.test('a log reader that reads nothing does not keep the gateway from ending', async (t) => {
  const gateway = await spawnGateway(t, { yaml: `${yamlFor('http://127.0.0.1:1/v1')}\n` })
  gateway.child.stdout?.pause()
  const long = 'x'.repeat(6000)
  // The line of each refusal has its client's id: more bytes than the pipe and this process buffer.
  const headers = { 'x-client-request-id': long.slice(0, 255), authorization: `Bearer ${long}` }
  for (let i = 0; i < 20; i++) {
    await Promise.all(
      Array.from({ length: 50 }, () => fetch(`${gateway.url}/v1/models`, { headers })),
    )
  }
  const exited = once(gateway.child, 'exit')
  gateway.child.kill('SIGTERM')
  t.same(await exited, [0, null])
})
