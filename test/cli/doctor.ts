// tollgate doctor as a person runs it: lines, count, exit code; a file with problems; Ctrl-C; the end of the process.

import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { Test } from 'tap'
import { startBackend } from '../fixtures/backend.ts'
import { chat } from '../fixtures/backend-model.ts'
import { failing, json, silent } from '../fixtures/backend-scripts.ts'
import type { Script } from '../fixtures/backend.ts'
import { runCli } from '../fixtures/cli.ts'
import { runProcess, startProcess } from '../fixtures/process.ts'
import { startRedis } from '../fixtures/redis-server.ts'

const redis = await startRedis(t, {
  args: ['--appendonly', 'yes', '--stream-node-max-bytes', '1024'],
})

/** Lines of gateway.yaml for one target, Redis and the store. */
function folderWith(t: Test, url: string, more = `redis: "unix://${redis.socket}"`): string {
  const target = `{url: "${url}", model: gpt, key: "\${KEY}"}`
  return t.testdir({ 'gateway.yaml': `${more}\nmodels: {m: {targets: [${target}]}}\n` })
}

const env = { KEY: 'sk-very-secret' }
const good: Script = (call) =>
  (call.req.method === 'GET' ? json({ data: [{ id: 'gpt' }] }) : chat())(call)

t.test('all is well: a line for each check as it ends, the count, 0', async (t) => {
  const backend = await startBackend(t, good)
  const dir = folderWith(t, backend.url)
  const file = join(dir, 'gateway.yaml')
  const pieces: string[] = []
  const ran = await runCli(['doctor', file], { env, onOutput: (text) => pieces.push(text) })
  t.match(ran, { code: 0, err: '' }, ran.out)
  const lines = ran.out.trimEnd().split('\n')
  t.equal(pieces.length, lines.length)
  t.match(lines.at(0), `ok    ${file}: 0 problems`)
  for (const line of lines.slice(0, -1)) t.match(line, /^(ok {4}|warn {2})[a-z/].+: ./)
  t.equal(lines.at(-1), '18 checks, 0 warnings, 0 failures')
  t.strictSame(await readdir(dir), ['gateway.yaml'])
})

t.test('--json prints one object with the same findings', async (t) => {
  const backend = await startBackend(t, failing(401))
  const file = join(folderWith(t, backend.url), 'gateway.yaml')
  const { code, out } = await runCli(['doctor', '--config', file, '--json'], { env })
  t.equal(code, 1)
  const told = JSON.parse(out) as { findings: readonly unknown[] }
  t.match(told, { file, warnings: 0, failures: 2 })
  t.equal(told.findings.length, 17)
  t.match(told.findings[0], { verdict: 'ok', what: file, detail: '0 problems' })
  t.match(told.findings.at(-1), {
    verdict: 'fail',
    what: 'model m, target 1, chat',
    detail: '401, the key is refused: scripted',
  })
  t.notMatch(out, 'sk-very-secret')
})

t.test('colours where they can be shown; warnings of the file are among the checks', async (t) => {
  const backend = await startBackend(t, failing(401))
  const more = `redis: "unix://${redis.socket}"\nplans: {small: {tokens_per_minute: 9}}`
  const file = join(folderWith(t, backend.url, more), 'gateway.yaml')
  const style = (colour: string, text: string) => `<${colour}>${text}</>`
  const { out } = await runCli(['doctor', file], { env, style })
  t.match(out, `<green>ok  </>  ${file}: 0 problems\n`)
  t.match(out, /^<yellow>warn<\/> {2}\S+:2:36: plans\.small\.tokens_per_minute: 9 is not more/m)
  t.match(out, /^<red>fail<\/> {2}model m, target 1, chat: 401/m)
  t.match(out, /\n<red>18 checks, 1 warning, 2 failures<\/>\n$/)
  const json = await runCli(['doctor', file, '--json'], { env, style })
  t.notMatch(json.out, /<red>/)
})

t.test('a server that is not reached ends with 69, after all other checks', async (t) => {
  const backend = await startBackend(t, good)
  const away = 'redis: "unix:///nowhere/redis.sock"'
  const file = join(folderWith(t, backend.url, away), 'gateway.yaml')
  const { code, out } = await runCli(['doctor', file, '--timeout', '1s'], { env })
  t.equal(code, 69)
  t.match(out, /^fail {2}redis: .*ENOENT/m)
  t.match(out, /^ok {4}model m, target 1, chat: /m)
  t.match(out, /\n10 checks, 0 warnings, 1 failure\n$/)
})

t.test('a file with problems is told as check tells it: 78', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': 'lisen: 1\n' }), 'gateway.yaml')
  const checked = await runCli(['check', file])
  t.equal(checked.code, 78)
  t.strictSame(await runCli(['doctor', file]), checked)
  t.strictSame(await runCli(['doctor', file, '--json']), await runCli(['check', file, '--json']))
})

t.test('wrong use is 2', async (t) => {
  t.match(await runCli(['doctor', 'a', '--config', 'b']), { code: 2 })
  t.match(await runCli(['doctor', '--timeout', 'soon']), { code: 2, err: /no time/ })
  t.match(await runCli(['doctor', '--timeout', '0']), { code: 2 })
})

const main = fileURLToPath(new URL('../../src/tollgate.cjs', import.meta.url))

const doctor = (...words: readonly string[]) => [process.execPath, main, 'doctor', ...words]
const inShell = { env: { ...process.env, ...env } }

t.test('Ctrl-C in the middle: a message, 1, and nothing is left', async (t) => {
  const backend = await startBackend(t, silent)
  const dir = folderWith(t, backend.url)
  const words = doctor(join(dir, 'gateway.yaml'), '--timeout', '60s')
  const { child, log, stdout } = startProcess(t, words, inShell)
  const closed = once(child, 'close')
  await backend.request(0)
  child.kill('SIGINT')
  t.same(await closed, [1, null])
  t.equal(log.at(-1), 'tollgate: Stopped before every check was done.')
  t.match(stdout.join('\n'), /^ok {4}store upload cut short/m)
  t.strictSame(await readdir(dir), ['gateway.yaml'])
})

t.test('a store that never answers does not keep the process running', async (t) => {
  const deaf = await startBackend(t, silent)
  const endpoint = `http://127.0.0.1:${deaf.port}`
  const keys = 'access_key_id: a, secret_access_key: very-secret'
  const store = `store: {s3: {bucket: files, endpoint: "${endpoint}", path_style: true, ${keys}}}`
  const backend = await startBackend(t, good)
  const dir = folderWith(t, backend.url, `redis: "unix://${redis.socket}"\n${store}`)
  const begun = performance.now()
  const words = doctor(join(dir, 'gateway.yaml'), '--timeout', '1s')
  const { code, out, err } = await runProcess(t, words, inShell)
  t.equal(code, 69, out + err)
  // Three checks of a second each; a single call to S3 may take 30 s.
  t.ok(performance.now() - begun < 20_000)
  t.match(out, /^fail {2}store write: no answer within 1 s$/m)
  t.match(out, /^fail {2}store clean-up of doctor\/\S+: no answer within 1 s$/m)
  t.match(out, /^ok {4}model m, target 1, chat: /m)
})
