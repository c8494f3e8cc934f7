// Golden files: each bad one with its problems beside it, each good one with its effective configuration; of all but
// smallest.yaml only what is otherwise than there, so that a new key is a line of one file.

import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import t, { type Test } from 'tap'
import { loadConfig } from '../../src/config/load.ts'
import { printYaml } from '../../src/config/tree.ts'
import { isBlock } from '../../src/config/check.ts'
import { formatProblem } from '../../src/config/problem.ts'
import { z } from '../../src/config/schema.ts'
import { env, folder, load, plugins, problemsOf } from '../fixtures/config/load.ts'
import { seeded } from '../fixtures/random.ts'

const filesIn = async (name: string) =>
  (await readdir(join(folder, name)))
    .filter((file) => file.endsWith('.yaml'))
    .map((file) => join(folder, name, file))

/** REWRITE=1 replaces the expected results by the found ones: after a change of keys. Read the diff. */
const isRewriting = process.env.REWRITE === '1'

async function isExpected(t: Test, file: string, found: string): Promise<void> {
  const beside = file.replace(/yaml$/, 'expected')
  if (isRewriting) await writeFile(beside, found)
  const hint = 'right as found? REWRITE=1 npx tap test/config/load.ts'
  t.equal(found, await readFile(beside, 'utf8'), `${relative(folder, file)}; ${hint}`)
}

/** What `to` has otherwise than `from`; where it lacks a key, `(none)`. */
function changes(from: unknown, to: unknown): unknown {
  if (!isBlock(from) || !isBlock(to)) return to
  const keys = [...new Set([...Object.keys(to), ...Object.keys(from)])]
  const changed = keys.filter((key) => !isDeepStrictEqual(from[key], to[key]))
  const entries = changed.map((key) => [key, key in to ? changes(from[key], to[key]) : '(none)'])
  return Object.fromEntries(entries)
}

const write = async (t: Test, text: string | Uint8Array) => {
  const dir = t.testdir({ 'gateway.yaml': Buffer.from(text) })
  return join(dir, 'gateway.yaml')
}

t.test('every bad file gives exactly the problems beside it, each at its place', async (t) => {
  const files = await filesIn('bad')
  t.ok(files.length >= 30)
  for (const file of files) {
    const lines = (await problemsOf(file)).map((line) => `${line}\n`)
    const text = lines.join('')
    await isExpected(t, file, text)
    t.notMatch(lines.join(''), /hidden-password|from-outside/, 'no secret is shown')
  }
})

t.test('every good file has the effective configuration beside it, secrets masked', async (t) => {
  const files = await filesIn('good')
  const smallest = await load(join(folder, 'good/smallest.yaml'))
  for (const file of files) {
    const loaded = await load(file)
    if ('problems' in smallest || 'problems' in loaded) return t.fail(file)
    const isSmallest = file.endsWith('smallest.yaml')
    const printed = printYaml(loaded.effective)
    const shown = isSmallest ? loaded.effective : changes(smallest.effective, loaded.effective)
    await isExpected(t, file, printYaml(shown).replaceAll(folder, '.'))
    t.notMatch(
      printed,
      /hidden(-|%2F)password|secret-from-outside|from-a-file/,
      'no secret is shown',
    )
  }
})

t.test('the printed configuration can be loaded again, and is the same', async (t) => {
  for (const name of ['smallest', 'anchors', 'redis-socket']) {
    const first = await load(join(folder, 'good', `${name}.yaml`))
    if ('problems' in first) return t.fail(name)
    const file = await write(t, printYaml(first.effective))
    const second = await load(file)
    if ('problems' in second) return t.fail(second.problems.map(formatProblem).join('\n'))
    t.same({ ...second.config, file: '' }, { ...first.config, file: '' }, name)
  }
})

t.test('a value from the environment adds no keys and changes no others', async (t) => {
  const yaml =
    'models: {demo: {targets: [{demo: true, model: x}]}}\nadmin: {token: "${INJECTION}"}\n'
  const loaded = await load(await write(t, yaml))
  if ('problems' in loaded) return t.fail(loaded.problems.map(formatProblem).join('\n'))
  t.equal(loaded.config.admin.token, env.INJECTION)
  t.equal(loaded.config.listen.port, 8080)
})

t.test('prices are what the file says, to the micro-unit', async (t) => {
  const prices: readonly (readonly [string, bigint | undefined])[] = [
    ['0.07', 70_000n],
    ['"0.07"', 70_000n],
    ['"${PRICE}"', 70_000n],
    ['0.000001', 1n],
    ['.5', 500_000n],
    ['1.10', 1_100_000n],
    ['1.0000000', 1_000_000n],
    ['999999999.999999', 999_999_999_999_999n],
    ['1e-6', undefined],
    ['7.000000000000001', undefined],
    ['0.0000001', undefined],
  ]
  for (const [text, micros] of prices) {
    const yaml = `models: {demo: {targets: [demo], price: {input: ${text}}}}`
    const loaded = await load(await write(t, yaml))
    const input = 'config' in loaded ? loaded.config.models.get('demo')?.price.input : undefined
    t.equal(input, micros, text)
  }
})

t.test('the result is frozen to its leaves', async (t) => {
  const loaded = await load(join(folder, 'good', 'blocks.yaml'))
  if ('problems' in loaded) return t.fail('blocks.yaml')
  const { config } = loaded
  const model = config.models.get('big')
  for (const part of [
    config,
    config.listen.tls,
    config.limits,
    model,
    model?.targets[0]?.headers,
    config.plugins.get('words'),
  ]) {
    t.ok(part && Object.isFrozen(part))
  }
})

t.test('a missing, binary or unreadable file is one problem', async (t) => {
  const missing = await loadConfig(join(t.testdir(), 'none.yaml'), plugins)
  t.match(missing, { problems: [{ line: 1, message: /there is no such file/ }] })
  const binary = await loadConfig(await write(t, Uint8Array.of(0xff, 0xfe, 0x00)), plugins)
  t.match(binary, { problems: [{ line: 1, message: /not UTF-8/ }] })
})

t.test("a plugin of one's own cannot crash the loader", async (t) => {
  const throwing = z.unknown().transform(() => {
    throw new Error('broken schema')
  })
  const yaml = 'models: {demo: {targets: [demo]}}\nplugins: {./own.ts: {}}\n'
  const file = await write(t, yaml)
  const loaded = await loadConfig(file, [], {
    loadPlugin: async () => ({ name: 'own', schema: throwing }),
  })
  t.match(loaded, { problems: [{ path: ['plugins'], message: /broken schema/ }] })
  const without = await loadConfig(file, [])
  t.match(without, { problems: [{ line: 2, column: 11, message: /cannot be loaded here/ }] })
})

t.test('for any bytes in the file, the loader returns and never throws', async (t) => {
  const random = seeded(20_261_121)
  const seedText = await readFile(join(folder, 'good', 'blocks.yaml'))
  const pieces = [
    '{',
    '}',
    '[',
    ']',
    ': ',
    '\n',
    '  ',
    '- ',
    '"',
    '&a ',
    '*a',
    '!!str ',
    '${',
    '}',
    'models',
  ]
  for (let i = 0; i < 300; i++) {
    const bytes = Buffer.from(seedText)
    if (i % 3 === 0) for (let n = 0; n < 8; n++) bytes[random(bytes.length)] = random(256)
    const noise = Array.from({ length: random(40) }, () => pieces[random(pieces.length)]).join('')
    const text = i % 3 === 1 ? noise : bytes.subarray(random(bytes.length))
    const loaded = await load(await write(t, text)).catch((error: unknown) => error)
    if (loaded instanceof Error)
      t.fail(`threw ${loaded.message} for ${JSON.stringify(String(text))}`)
  }
  const deep = await load(await write(t, '['.repeat(100_000)))
  t.ok('problems' in deep)
})
