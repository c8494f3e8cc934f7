import t from 'tap'
import { realpath, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isMountedAlone } from '../../src/cli/check.ts'
import { runCli, startCli } from '../fixtures/cli.ts'
import { adminToken } from '../fixtures/gateway.ts'

const plugins = async () => (await import('../../src/gateway.ts')).plugins
const good = 'models: {m: {targets: [{url: "http://127.0.0.1:1/v1", key: "${KEY}"}]}}\n'
const bad = 'lisen: 1\nmodels: {m: {targets: []}}\n'

t.test(
  'every problem stands on a line of its own with its place, the last line counts them',
  async (t) => {
    const file = join(t.testdir({ 'gateway.yaml': bad }), 'gateway.yaml')
    const { code, out, err } = await runCli(['check', file])
    t.equal(code, 78)
    t.equal(err, '')
    const lines = out.trimEnd().split('\n')
    t.match(lines.at(0), `${file}:1:1: lisen: unknown key`)
    t.equal(lines.at(-1), `${lines.length - 1} problems`)
    const { problems } = JSON.parse((await runCli(['check', file, '--json'])).out) as {
      problems: readonly unknown[]
    }
    t.equal(problems.length, lines.length - 1)
    t.match(problems[0], { file, line: 1, column: 1, path: ['lisen'] })
  },
)

t.test("a file's own words move no cursor and turn no text around", async (t) => {
  const words = `"m\\x9b31m": {}\n${good.replace('key:', 'model: "\\u202e", key:')}`
  const file = join(t.testdir({ 'gateway.yaml': words }), 'gateway.yaml')
  const { code, out } = await runCli(['check', file], { env: { KEY: 'x' } })
  t.equal(code, 78)
  t.match(out, '["m\ufffd31m"]: unknown key')
  t.match(out, 'models.m.targets[0].model: got "\ufffd"')
  t.notMatch(out, /[\u009b\u202e]/)
})

t.test('a file without problems ends with 0; --print shows it without its secrets', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': good }), 'gateway.yaml')
  const env = { KEY: 'sk-hidden' }
  t.match(await runCli(['check', file], { env }), { code: 0, out: '0 problems\n' })
  t.match(await runCli(['check', '--config', file], { env }), { code: 0 })
  const { code, out } = await runCli(['check', file, '--print'], { env })
  t.equal(code, 0)
  t.match(out, /listen: 8080/)
  t.notMatch(out, /sk-hidden/)
  t.equal((await runCli(['check', file])).code, 78, 'without its variable')
})

t.test('--print shows a valid configuration', async (t) => {
  const given = join(t.testdir({ given: good, shown: '' }), 'given')
  const env = { KEY: 'sk-hidden' }
  const { out } = await runCli(['check', given, '--print'], { env, plugins })
  t.match(out, /lease: 30s/)
  const shown = join(given, '../shown')
  await writeFile(shown, out)
  t.match(await runCli(['check', shown], { plugins }), { code: 0, out: '0 problems\n' })
  t.equal((await runCli(['check', shown, '--print'], { plugins })).out, out)
})

t.test('a missing file is one problem', async (t) => {
  t.match(await runCli(['check', '/nowhere/gateway.yaml']), { code: 78, out: /\n1 problem\n$/ })
  t.match(await runCli(['check', 'a', '--config', 'b']), { code: 2 })
})

t.test("the plugins' blocks are judged where they are known", async (t) => {
  const text = `${good}plugins: {auth: {nothing: 1}}\n`
  const file = join(t.testdir({ 'gateway.yaml': text }), 'gateway.yaml')
  const { z } = await import('../../src/config/schema.ts')
  const own = async () => [{ name: 'auth', schema: z.strictObject({}) }]
  const judged = await runCli(['check', file], { env: { KEY: 'x' }, plugins: own })
  t.match(judged, { code: 78, out: /plugins\.auth\.nothing/ })
})

const narrow = `${good}plans: {small: {tokens_per_minute: 2000}}\n`

t.test('a doubtful value is a warning, not a problem', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': narrow }), 'gateway.yaml')
  const env = { KEY: 'x' }
  const { code, out } = await runCli(['check', file], { env })
  t.equal(code, 0)
  t.match(
    out,
    /^warning: \S+:2:36: plans\.small\.tokens_per_minute: 2000 is not more than .* m \(4096\)/,
  )
  t.match(out, /\n0 problems, 1 warning\n$/)
  const told = JSON.parse((await runCli(['check', file, '--json'], { env })).out) as object
  t.match(told, { problems: [], warnings: [{ line: 2, column: 36 }] })
})

t.test('colours only where they can be shown, and never in JSON', async (t) => {
  const style = (colour: string, text: string) => `<${colour}>${text}</>`
  const dir = t.testdir({ file: good, poor: narrow, broken: bad })
  const [file, poor, broken] = [join(dir, 'file'), join(dir, 'poor'), join(dir, 'broken')]
  const check = async (...words: readonly string[]) =>
    (await runCli(['check', ...words], { env: { KEY: 'x' }, style })).out
  t.equal(await check(file), '<green>0 problems</>\n')
  t.match(await check(poor), /^<yellow>warning: .*<\/>\n<green>0 problems<\/>, 1 warning\n$/)
  t.match(await check(broken), /^<red>.*lisen.*<\/>\n(<red>.*<\/>\n)*<red>\d problems<\/>\n$/)
  t.notMatch(await check(broken, '--json'), /<red>/)
})

t.test('--diff says what a reload would change, and what needs a restart', async (t) => {
  const { cliWith, file, rewrite, yaml } = await startCli(t)
  const env = { TOLLGATE_ADMIN_TOKEN: adminToken }
  const cli = cliWith({ env, plugins })
  t.match(await cli('check', file, '--diff'), { code: 0, out: '0 changes\n' })
  const changed = yaml.replace('secret-key', 'other-key').replace('output: 4', 'output: 5')
  await rewrite(`${changed}limits: { headers: 7s }\n`)
  const { code, out } = await cli('check', file, '--diff')
  t.equal(code, 0)
  t.match(out, 'models.m.price.output: 4 → 5\n')
  t.match(out, 'models.m.targets[0].key: changed, and is not shown\n')
  t.match(out, 'limits.headers: "60s" → "7s" (needs a restart)\n')
  t.match(out, /\n3 changes, 1 of them after a restart\n$/)
  t.notMatch(out, /-key/)
  t.match(JSON.parse((await cli('check', file, '--diff', '--json')).out), {
    changes: [{ needs_restart: false }, { path: 'limits.headers', needs_restart: true }, {}],
  })
  const nowhere = ['check', file, '--diff', '--admin', 'http://127.0.0.1:1']
  t.match(await runCli(nowhere, { env, plugins }), { code: 69 })
  t.match(await cli('check', file, '--diff', '--token', 'wrong'), { code: 77 })
  await rewrite('lisen: 1\n')
  t.match(await cli('check', file, '--diff'), { code: 78 })
})

t.test('--diff compares two files, too', async (t) => {
  const dir = t.testdir({ a: good, b: `${good}drain: 5s\n`, c: bad })
  const run = (...names: readonly string[]) =>
    runCli(['check', ...names.map((name) => join(dir, name)), '--diff'], { env: { KEY: 'k' } })
  t.match(await run('b', 'a'), { code: 0, out: 'drain: "30s" → "5s"\n1 change\n' })
  t.match(await run('a', 'a'), { code: 0, out: '0 changes\n' })
  t.match(await run('c', 'a'), { code: 78 })
  t.match(await run('a', 'c'), { code: 78, err: /has problems itself/ })
  t.match(await runCli(['check', join(dir, 'a'), join(dir, 'b')]), { code: 2 })
})

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
