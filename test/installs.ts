// Nobody who follows our pages installs a stranger's package. Until ours are published, anybody can take their names.
// So pages install from a path.

import { readFileSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { dependenciesIn, installsIn } from './fixtures/installs.ts'
import { root } from './fixtures/source.ts'

const name = 'tollgate-gateway'
/** The names that we own on their registries: none yet. */
const published: readonly string[] = []
/** Packages of others that a page or a comment names on purpose. */
const meant: readonly string[] = [
  'openai',
  'tap',
  'tokio',
  '@opentelemetry/sdk-trace',
  '@opentelemetry/resources',
  '@opentelemetry/exporter-trace-otlp-http',
]
/** Nobody can own a name below `.example`, so nothing can be downloaded from there. */
const reserved = /^[\w.-]+\.example\//

const isPath = (word: string) => /^(?:\.{1,2}$|\.{0,2}\/|~\/|file:)/.test(word)
const isOurs = (word: string) => published.includes(word) || reserved.test(word)
const isAllowed = (word: string) => isPath(word) || isOurs(word) || meant.includes(word)

/** Not searched: what is built or downloaded, and tests, whose fixtures contain what must be refused. */
const left = new Set(['.git', '.tap', 'node_modules', 'data', 'dist', 'target', 'coverage', 'test'])

function filesBelow(folder: string): readonly string[] {
  return readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return left.has(entry.name) ? [] : filesBelow(path)
    return entry.isFile() && !/(^|\.|-)lock(\.json)?$|\.log$/.test(entry.name) ? [path] : []
  })
}

const files = filesBelow('.')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')
const metadata = files.filter((path) =>
  ['package.json', 'pyproject.toml', 'Cargo.toml', 'go.mod'].includes(basename(path)),
)

t.test('what a page, a comment or a message says to install is ours or meant', async (t) => {
  const found = files.flatMap((path) => installsIn(textOf(path)).map((word) => ({ path, word })))
  t.strictSame(
    found.filter(({ word }) => !isAllowed(word)),
    [],
  )
  for (const language of ['typescript', 'python', 'go', 'rust']) {
    const readme = textOf(`clients/${language}/README.md`)
    const path = `../tollgate/clients/${language}`
    t.ok(readme.includes(path), `the README for ${language} installs from ${path}`)
  }
})

t.test('packages have our name, or are marked as not to be published', async (t) => {
  const named = metadata
    .filter((path) => basename(path) !== 'go.mod')
    .map((path) => {
      const text = textOf(path)
      const isPrivate = /^\s*"private": true|^publish = false/m.test(text)
      return { path, isPrivate, name: /^(?:  "name": |name = )"([^"]+)"/m.exec(text)?.[1] }
    })
  t.strictSame(
    named.filter(({ isPrivate }) => !isPrivate),
    [
      { path: 'clients/python/pyproject.toml', isPrivate: false, name },
      { path: 'clients/rust/Cargo.toml', isPrivate: false, name },
      { path: 'clients/typescript/package.json', isPrivate: false, name },
    ],
  )
  const [module = ''] = textOf('clients/go/go.mod').match(/(?<=^module ).*/) ?? []
  t.match(module, reserved)
  t.match(module, /\/clients\/go$/)
})

t.test('no package depends on a name like ours that comes from a registry', async (t) => {
  t.ok(metadata.length >= 8, `${metadata.length} packages`)
  const found = metadata.flatMap((path) => dependenciesIn(textOf(path)))
  t.ok(['openai', 'httpx', 'reqwest'].every((one) => found.includes(one)))
  t.strictSame(
    found.filter((one) => /toll.?gate/i.test(one)),
    [],
  )
})

t.test('a foreign name is found in every way to install it', async (t) => {
  const seen = [
    '`npm install tollgate`: chats',
    'npm i -D tollgate@1',
    'npm --prefix app install tollgate',
    'pnpm add tollgate',
    'deno add npm:tollgate',
    'npx tollgate start',
    'pip install tollgate',
    'python3 -m pip install -U "tollgate[all]>=1"',
    'pip3 install \\\n  --index-url https://a.example tollgate',
    'uv add tollgate',
    'cargo add tollgate --features x',
    'cargo install --locked tollgate',
    'go mod edit -require tollgate@v1.0.0',
    'see https://pypi.org/project/tollgate/',
    'https://unpkg.com/tollgate',
    '```toml\n[dependencies]\ntollgate = "0.1"\ntokio = "1"\n```',
    '```json\n{ "dependencies": { "tollgate": "^1" } }\n```',
  ]
  for (const text of seen) {
    t.strictSame(
      installsIn(text).filter((word) => !isAllowed(word)),
      ['tollgate'],
      text,
    )
  }
  const unpublished = `pip install ${name} openai && npm i ../tollgate/clients/typescript && go get github.com/a/b@latest`
  t.strictSame(
    installsIn(unpublished).filter((word) => !isAllowed(word)),
    ['../tollgate/clients/typescript', name, 'github.com/a/b'].filter((word) => !isPath(word)),
  )
})

t.test('our own names and paths are not reported', async (t) => {
  for (const text of [
    'npm ci --prefix ../tollgate/clients/typescript && npm install ../tollgate/clients/typescript',
    'pip install ../tollgate/clients/python',
    'cargo add tollgate-gateway --path ../tollgate/clients/rust',
    '```toml\n[dependencies]\ntollgate-gateway = { path = "../tollgate/clients/rust" }\n```',
    'npm install # what package.json names',
    'go run ./internal/pack FOLDER VERSION',
  ]) {
    t.strictSame(
      installsIn(text).filter((word) => !isAllowed(word)),
      [],
      text,
    )
  }
})

t.test('no package tells its makers that it was installed', async (t) => {
  // The one that Swagger UI brings along obeys this.
  t.match(JSON.parse(textOf('package.json')), { scarfSettings: { enabled: false } })
})
