// The house rules that a machine can check: a test for each source, one importer for each package, no circles, imports
// downwards, no export without a user, files of 300 lines at most and of 25 at least, Lua headers that tell the truth.

import { existsSync, readFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import t from 'tap'
import { filesIn, importedNames, readSources, root } from './fixtures/source.ts'
import { mutants } from './mutants/table.ts'

const sources = readSources()
const paths = new Set(sources.map(({ path }) => path))

/** What each plugin's routes are for their users: tables, all tested by test/openapi/groups.ts. */
const routeTable = /^openapi\/\w+-routes\.ts$/

t.test('each source with code in it has a test of the same path', async (t) => {
  const lacking = sources
    .filter(({ path, hasCode }) => hasCode && !routeTable.test(path))
    .filter(({ path }) => !existsSync(join(root, 'test', path)))
    .map(({ path }) => path)
  t.strictSame(lacking, [])
})

/** Tests of several sources at once, or of one promise of many, in a folder that also exists in src. */
const broad: readonly string[] = [
  'ledger/budgets.ts',
  'ledger/extending.ts',
  'ledger/forgotten.ts',
  'ledger/ledger-away.ts',
  'ledger/ledger-disk.ts',
  'ledger/ledger-full.ts',
  'ledger/ledger-lease.ts',
  'ledger/limits.ts',
  'ledger/property.ts',
  'ledger/renewals.ts',
  'ledger/shadow.ts',
]

t.test('each test in a folder that src has is the test of one source', async (t) => {
  const folders = new Set(sources.map(({ path }) => dirname(path)).filter((name) => name !== '.'))
  const orphans = filesIn('test', '.ts').filter(
    (path) => folders.has(dirname(path)) && !paths.has(path) && !broad.includes(path),
  )
  t.strictSame(orphans, [])
})

t.test('each third-party package is imported by value in one file', async (t) => {
  const importers = Map.groupBy(
    sources.flatMap(({ path, imports }) =>
      imports.filter(({ isOwn }) => !isOwn).map(({ name }) => ({ name, path })),
    ),
    ({ name }) => name,
  )
  for (const [name, found] of importers) {
    const files = [...new Set(found.map(({ path }) => path))]
    t.equal(files.length, 1, `${name}: ${files.join(', ')}`)
  }
})

t.test('every import leads to a file, and none in a circle, types included', async (t) => {
  const done = new Set<string>()
  const found = new Set<string>()
  const walk = (path: string, way: readonly string[]): void => {
    if (way.includes(path)) return void found.add([...way, path].join(' → '))
    if (done.has(path)) return
    for (const next of needed(path)) walk(next, [...way, path])
    done.add(path)
  }
  for (const { path } of sources) walk(path, [])
  t.strictSame([...found], [])
  t.equal(done.size, sources.length, 'all were walked')

  function needed(path: string): readonly string[] {
    const source = sources.find((one) => one.path === path)
    if (!source) t.fail(`${path} is imported and not there`)
    return source?.needs ?? []
  }
})

/** From the top down. A folder imports only from those below it, types too; all may import the files at the top of src. */
const floors: readonly (readonly string[])[] = [
  ['cli'],
  ['plugins'],
  ['openapi'],
  ['sessions'],
  ['chat', 'files', 'portal'],
  ['accounts', 'backend', 'ledger', 'listeners', 'workers'],
  ['demo', 'redis', 'tokens'],
  ['http'],
  ['config'],
  ['store'],
  ['data', 'sharing'],
]

/** The types of keys: parts that declare keys use it, and the configuration collects these keys. */
const ground = 'config/schema.ts'

/** They build everything, so they may import everything. */
const builders: ReadonlySet<string> = new Set([
  'main.ts',
  'start.ts',
  'load-file.ts',
  'gateway.ts',
  'supervisor.ts',
  'worker.ts',
])

function floorOf(path: string): number | undefined {
  if (path === ground) return floors.length
  const [folder = '', ...rest] = path.split('/')
  const floor = floors.findIndex((folders) => folders.includes(folder))
  return rest.length > 0 && floor >= 0 ? floor : undefined
}

t.test('folders import downwards, and nobody but gateway.ts imports a plugin', async (t) => {
  for (const { path, needs, imports } of sources) {
    const own = imports.flatMap(({ name, isOwn }) => (isOwn ? name : []))
    for (const name of new Set([...needs, ...own])) {
      const [from, to] = [floorOf(path), floorOf(name)]
      const isApart = path.split('/')[0] !== name.split('/')[0]
      if (from !== undefined && to !== undefined && isApart && to <= from) {
        t.fail(`${path} imports ${name}, which does not stand below it`)
      }
      // The command line loads them when a command needs them.
      const isOfCommands = path.startsWith('cli/') && !needs.includes(name)
      if (builders.has(name) && !builders.has(path) && !isOfCommands)
        t.fail(`${path} imports ${name}`)
      if (name.startsWith('plugins/') && !mayImportPlugin(path, name)) {
        t.fail(`${path} imports the plugin ${name}`)
      }
    }
  }
  const inFolders = sources.filter(({ path }) => path.includes('/'))
  const folders = new Set(inFolders.map(({ path }) => path.split('/')[0] ?? ''))
  t.strictSame([...folders].toSorted(), floors.flat().toSorted(), 'each folder has its floor')
})

t.test('the words at the top name few types of floors above those who use them', async (t) => {
  const needsOf = (path: string) => sources.find((one) => one.path === path)?.needs ?? []
  const isTop = (path: string) => !path.includes('/') && !builders.has(path)
  const beyond = (path: string, seen = new Set<string>()): ReadonlySet<string> => {
    for (const name of needsOf(path)) {
      if (seen.has(name)) continue
      seen.add(name)
      if (isTop(name)) beyond(name, seen)
    }
    return seen
  }
  const upward = sources.flatMap(({ path, needs }) => {
    const named = needs.filter(isTop).flatMap((name) => [...beyond(name)])
    const floor = floorOf(path) ?? -1
    const above = named.filter((name) => (floorOf(name) ?? Infinity) < floor)
    return above.map((name) => `${path.split('/')[0]} → ${name.split('/')[0]}`)
  })
  const pairs = [...new Set(upward)].toSorted()
  t.ok(pairs.length <= 13, pairs.join(', '))
})

/** Files of one plugin may import each other: plugins/admin/keys.ts is a part of plugins/admin/admin.ts. */
function mayImportPlugin(path: string, name: string): boolean {
  if (path === 'gateway.ts') return true
  const plugin = /^plugins\/[a-z]+/.exec(name)?.[0]
  return plugin !== undefined && plugin === /^plugins\/[a-z]+/.exec(path)?.[0]
}

t.test('ARCHITECTURE.md names each folder, and each file at the top of src', async (t) => {
  const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
  const named = new Set(
    [...text.matchAll(/`([^`\s]+)`/g)].flatMap(([, name = '']) => [name, `${basename(name)}/`]),
  )
  const folders = new Set(sources.map(({ path }) => dirname(path)).filter((name) => name !== '.'))
  const files = sources.map(({ path }) => path).filter((path) => !path.includes('/'))
  const lacking = [
    ...[...folders].filter((path) => !named.has(`${basename(path)}/`)),
    ...files.filter((path) => !named.has(path)),
  ]
  t.strictSame(lacking, [])
})

t.test('no exported type name is declared in two files', async (t) => {
  const declared = sources.flatMap(({ path, text }) =>
    [...text.matchAll(/^(export )?(?:interface|type|class) (\w+)/gm)].map(
      ([, isExported, name = '']) => ({ path, name, isExported: isExported !== undefined }),
    ),
  )
  for (const [name, found] of Map.groupBy(declared, (one) => one.name)) {
    const files = [...new Set(found.map(({ path }) => path))]
    const isAlone = files.length === 1 || !found.some(({ isExported }) => isExported)
    t.ok(isAlone, `${name}: ${files.join(', ')}`)
  }
})

t.test('what a source exports, beside types, another file uses', async (t) => {
  const used = new Set(
    ['src', 'test', 'scripts', 'bench'].flatMap((folder) =>
      ['.ts', '.js'].flatMap((end) =>
        filesIn(folder, end).flatMap((path) =>
          importedNames(`${folder}/${path}`, readFileSync(join(root, folder, path), 'utf8')),
        ),
      ),
    ),
  )
  const exported = /^export (?:async )?(?:function\*?|const|let|class) (\w+)/gm
  for (const path of [...filesIn('src', '.ts'), ...filesIn('src', '.js')]) {
    const text = readFileSync(join(root, 'src', path), 'utf8')
    const names = [...text.matchAll(exported)].map(([, name = '']) => name)
    const unused = names.filter((name) => !used.has(`src/${path} ${name}`))
    t.strictSame(unused, [], path)
  }
})

const linesOf = (text: string) => text.trimEnd().split('\n').length

/** Tables of one entry a line may be longer. */
const tables: readonly string[] = ['plugins/account/page/texts.js']

t.test('no source is longer than 300 lines, and each starts with a comment', async (t) => {
  const paths = ['.ts', '.lua', '.js', '.css'].flatMap((end) => filesIn('src', end))
  const tooLong = paths.filter((path) => {
    return linesOf(readFileSync(join(root, 'src', path), 'utf8')) > 300
  })
  t.strictSame(
    tooLong.filter((path) => !tables.includes(path)),
    [],
    'split them',
  )
  const bare = sources.filter(({ text }) => !/^(#!.*\n)?(\/\/|\/\*)/.test(text))
  t.strictSame(
    bare.map(({ path }) => path),
    [],
    'say what the file is',
  )
})

/** Sources under 25 lines with one user, and why they are no part of it. */
const small: Readonly<Record<string, string>> = {
  'plugin-api.ts': 'an export of the package',
}

/** A plugin, a command and the routes of a plugin are files of their own, however short. */
const features = /^(plugins|cli|openapi\/\w+-routes)\b/

t.test('a source under 25 lines has several users, or a reason', async (t) => {
  const usersOf = (path: string) =>
    sources.filter(
      ({ needs, imports }) => needs.includes(path) || imports.some(({ name }) => name === path),
    )
  const lonely = sources
    .filter(({ path, text }) => linesOf(text) < 25 && !features.test(path))
    .filter(({ path }) => usersOf(path).length < 2)
    .map(({ path }) => path)
  t.strictSame(lonely.toSorted(), Object.keys(small).toSorted())
})

t.test('each mutant still finds its line', async (t) => {
  for (const { file, line } of mutants) {
    const lines = readFileSync(join(root, file), 'utf8').split('\n')
    t.ok(
      lines.some((one) => one.trim() === line),
      `${file}: ${line}`,
    )
  }
})

// The prelude takes the one key that each script of the ledger declares.
const prelude = readFileSync(join(root, 'src/ledger/lua/prelude.lua'), 'utf8')

/** Answers with texts of Redis as they are. test/ledger/audit.ts audits amounts that cjson could not write. */
const textsOnly = 'ledger/lua/audit.lua'

t.test('each Lua file says its purpose, prints no amounts, and is in a library', async (t) => {
  for (const name of filesIn('src', '.lua')) {
    const text = readFileSync(join(root, 'src', name), 'utf8')
    t.match(text, /^-- Purpose: /, name)
    const printing = name === textsOnly ? /tostring\(/ : /cjson|tostring\(/
    t.notMatch(text.replace(/--.*$/gm, ''), printing, name)
    const folder = dirname(name).replace(/\/lua$/, '')
    const word = basename(name, '.lua')
    const own = new RegExp(`\\b${word}: {|'${word}(\\.lua)?'`)
    const isLoaded = sources.some(({ path, text }) =>
      path.startsWith(`${folder}/`) ? own.test(text) : text.includes(`/${folder}/lua/${word}'`),
    )
    t.ok(isLoaded, `${name} is loaded`)
  }
})

for (const name of filesIn('src', '.lua')) {
  if (name === 'ledger/lua/prelude.lua') continue
  const text = readFileSync(join(root, 'src', name), 'utf8')
  if (text.includes('KEYS[') || text.includes('ARGV[')) checkLua(name, text)
}

function checkLua(name: string, text: string): void {
  t.test(`the header of ${name} names the keys and arguments that are used`, async (t) => {
    const header = /^(?:--.*\n)+/.exec(text)?.[0].replace(/\n--/g, ' ').replace(/ +/g, ' ') ?? ''
    const code = text.replace(/--.*$/gm, '')
    const keys = /KEYS: (.+?) ARGV: /.exec(header)?.[1]?.split(', ') ?? []
    const usedKeys = indexes(name.startsWith('ledger/') ? prelude + code : code, 'KEYS')
    t.strictSame(usedKeys, upTo(keys.length), 'KEYS')
    const args = /ARGV: (.+?) Reply: /.exec(header)?.[1] ?? ''
    const numbers = [...args.matchAll(/(?:^|[;,] )(\d+)(…?) /g)]
    t.strictSame(
      numbers.map((found) => Number(found[1])),
      upTo(numbers.length),
      'ARGV in order',
    )
    const open = numbers.at(-1)?.[2] === '…'
    t.strictSame(indexes(code, 'ARGV'), upTo(numbers.length - (open ? 1 : 0)), 'ARGV')
    t.equal(/#ARGV|unpack\(ARGV/.test(code), open, 'as many as come')
  })
}

function indexes(code: string, table: string): readonly number[] {
  const found = [...code.matchAll(new RegExp(`\\b${table}\\[(\\d+)\\]`, 'g'))]
  return [...new Set(found.map((match) => Number(match[1])))].toSorted((a, b) => a - b)
}

function upTo(count: number): readonly number[] {
  return Array.from({ length: count }, (_, i) => i + 1)
}
