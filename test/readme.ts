// Every code block of README.md, run as it stands but for ports: against a gateway with the demo model and an account.
// And that pages name no file that does not exist. .ci/run runs the two `npm ci` blocks in a fresh clone; here only
// their scripts are looked up.

import { execFile } from 'node:child_process'
import { readFile, readdir, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { adminToken, spawnGateway } from './fixtures/gateway.ts'
import { loadConfig } from '../src/config/load.ts'
import { plugins } from '../src/gateway.ts'
import { ensurePython } from './fixtures/model-server.ts'

// The first run on a machine makes a Python environment.
t.setTimeout(180_000)

const root = resolve(import.meta.dirname, '..')
const readme = await readFile(join(root, 'README.md'), 'utf8')

interface Block {
  readonly language: string
  readonly code: string
}

const blocks = [...readme.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(
  ([, language = '', code = '']): Block => ({ language, code }),
)
const gateway = await spawnGateway(t, { yaml: 'models: { demo: { targets: [demo] } }' })
const { key } = await gateway.account(100_000)
const env = { ...process.env, KEY: key, TOLLGATE_ADMIN_TOKEN: adminToken }

/** Changes only the address of the gateway in what a reader would run. */
function here(code: string): string {
  return code
    .replaceAll('http://localhost:8080', gateway.url)
    .replaceAll(/^npm run -s tollgate -- (?!check)(.*)$/gm, `$& --admin ${gateway.adminUrl}`)
}

async function run(file: string, args: readonly string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(file, args, { cwd: root, env })
  return stdout
}

async function runBlock({ language, code }: Block): Promise<string> {
  if (language === 'sh') return run('bash', ['-euc', here(code)])
  if (language === 'ts') return run(process.execPath, ['--input-type=module', '-e', here(code)])
  if (language !== 'python') throw new Error(`nobody runs a block in ${language}`)
  const python = await ensurePython(['openai==3.52.0'])
  return run(python, ['-c', here(code)])
}

const isStart = ({ code }: Block) => code.startsWith('npm ci')

t.test('the commands for a fresh clone are existing scripts', async (t) => {
  const { scripts } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as {
    scripts: Readonly<Record<string, string>>
  }
  t.match(scripts, { start: String, test: String })
  t.same(
    blocks.filter(isStart).map(({ code }) => code),
    ['npm ci && npm start\n', 'npm ci && npm test\n'],
  )
  for (const [, script = ''] of readme.matchAll(/`npm run ([\w:]+)/g)) t.ok(scripts[script], script)
})

for (const block of blocks.filter((one) => one.language !== 'yaml' && !isStart(one))) {
  const [first = ''] = block.code.split('\n')
  t.test(`it runs: ${first}`, async (t) => {
    const output = await runBlock(block)
    t.ok(output.length > 20)
    t.notMatch(output, /"error"/)
  })
}

t.test('what was run was paid for, and the new account can pay', async (t) => {
  const answer = await gateway.call('/api/billing/transactions', key)
  const { data } = (await answer.json()) as { data: readonly { type: string }[] }
  t.equal(data.filter(({ type }) => type === 'charge').length, 3)
  const acme = await gateway.admin('GET', 'accounts/acme/balance')
  t.match(await acme.json(), { balance: 1_000_000 })
})

t.test('the configuration that it shows is valid', async (t) => {
  const yamls = blocks.filter(({ language }) => language === 'yaml')
  t.equal(yamls.length, 1)
  for (const { code } of yamls) {
    const dir = t.testdir({ 'gateway.yaml': code })
    const options = { env: { OPENAI_API_KEY: 'sk-x' } }
    const loaded = await loadConfig(join(dir, 'gateway.yaml'), plugins, options)
    t.same('problems' in loaded ? loaded.problems : [], [])
  }
})

const inDocs = await readdir(join(root, 'docs'))
const pages = ['README.md', 'ARCHITECTURE.md', 'CONTRIBUTING.md', 'CHANGELOG.md'].concat(
  inDocs.filter((name) => name.endsWith('.md')).map((name) => `docs/${name}`),
)

t.test('links in pages lead somewhere, and files that they name exist', async (t) => {
  for (const page of pages) {
    const text = await readFile(join(root, page), 'utf8')
    for (const [, path = ''] of text.matchAll(/\]\((?!https?:)([^)#]+)\)/g)) {
      await t.resolves(stat(resolve(root, dirname(page), path)), `${page}: ${path}`)
    }
    for (const [, path = ''] of text.matchAll(/`((?:src|test|scripts|config)\/[\w./-]+)`/g)) {
      // Names such as a/b.ts stand for any file.
      if (!/\b(a\/b|NAME(-routes)?)\.ts$/.test(path))
        await t.resolves(stat(join(root, path)), `${page}: ${path}`)
    }
  }
})

t.test('docs/plugins.md shows the plugin that is among the examples', async (t) => {
  const text = await readFile(join(root, 'docs/plugins.md'), 'utf8')
  const shown = /^```ts\n(.*?)^```$/ms.exec(text)?.[1] ?? ''
  const code = await readFile(join(root, 'config/examples/plugins/redact.ts'), 'utf8')
  t.ok(shown.length > 100)
  t.ok(code.endsWith(shown))
})
