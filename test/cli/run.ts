import t from 'tap'
import { readFileSync } from 'node:fs'
import { startAdmin } from '../fixtures/admin-listener.ts'
import { runCli } from '../fixtures/cli.ts'

t.test('help, version and usage errors need no gateway', async (t) => {
  const overview = await runCli(['help'])
  t.match(overview, { code: 0, out: /^Usage: tollgate COMMAND/ })
  t.equal((await runCli(['--help'])).out, overview.out)
  t.match(await runCli(['version']), { code: 0, out: /^\d+\.\d+\.\d+\n$/ })
  t.match(await runCli(['topup', '--help']), {
    code: 0,
    out: /^Usage: tollgate topup ACCOUNT AMOUNT/,
  })
  t.equal((await runCli(['help', 'topup'])).out, (await runCli(['topup', '--help'])).out)
  t.match(await runCli(['help', 'keys']), { code: 0, out: /keys create.*keys rotate/s })
  t.equal((await runCli(['keys', '--help'])).out, (await runCli(['help', 'keys'])).out)
  t.match(await runCli(['nothing', '-h']), { code: 2, err: /no command "nothing"/ })
})

t.test('wrong use ends with 2 and suggests the right words', async (t) => {
  const cases: readonly (readonly [readonly string[], RegExp])[] = [
    [['acounts', 'list'], /did you mean "accounts"\? See/],
    [['keys'], /keys create, keys list/],
    [['keys', 'delete'], /keys create, keys list/],
    [['topup', 'a', '5', '--not', 'x'], /no option --not; did you mean "note"/],
    [['topup'], /ACCOUNT is missing/],
    [['balance', 'a', 'b'], /"b" is one word too many/],
    [['topup', 'a', '5', '--note'], /--note/],
    [['--json', 'accounts', 'list'], /after the command/],
    [['help', 'nothing'], /no command "nothing"/],
  ]
  for (const [words, expected] of cases) {
    const { code, out, err } = await runCli(words)
    t.equal(code, 2, words.join(' '))
    t.equal(out, '')
    t.match(err, expected)
  }
})

t.test('a message moves no cursor and turns no text around', async (t) => {
  const { code, err } = await runCli(['a\u009b31m\u202e\u0007\u001b[2J'])
  t.equal(code, 2)
  t.match(err, /There is no command "a/)
  t.notMatch(err.trimEnd(), /[\p{Cc}\u202e]/u)
})

t.test('who forgets the `--` of npm is told so', async (t) => {
  const words = ['start', 'g.yaml']
  const hint = /npm start -- --config FILE/
  t.match(await runCli(words, { env: { npm_lifecycle_event: 'start' } }), { code: 2, err: hint })
  t.notMatch((await runCli(words)).err, hint)
})

t.test('a wrong token ends with 77, an absent gateway with 69', async (t) => {
  const { url } = await startAdmin(t)
  const wrong = await runCli(['accounts', 'list', '--admin', url, '--token', 'wrong'])
  t.match(wrong, { code: 77, out: '', err: /wrong\. Give .*--token-file.*\(invalid_admin_token/ })
  const env = { TOLLGATE_ADMIN_TOKEN: 'x' }
  const absent = await runCli(['accounts', 'list', '--admin', 'http://127.0.0.1:1'], { env })
  t.match(absent, {
    code: 69,
    out: '',
    err: /^tollgate: No gateway answers at http:\/\/127\.0\.0\.1:1/,
  })
})

t.test('a command loads nothing of the gateway, and no package', async (t) => {
  const seen = new Set<string>()
  const visit = (file: URL) => {
    if (seen.has(file.href)) return
    seen.add(file.href)
    const text = readFileSync(file, 'utf8')
    for (const [, name = ''] of text.matchAll(/^import (?!type).*? from '([^']+)'/gms)) {
      if (name.startsWith('.')) visit(new URL(name, file))
      else
        t.match(name, /^node:(util|fs|fs\/promises|path|crypto|timers\/promises)$/, file.pathname)
    }
  }
  visit(new URL('../../src/cli/run.ts', import.meta.url))
  const paths = [...seen].map((href) => href.split('/src/')[1] ?? '')
  const others = paths.filter((path) => !/^(cli|config)\//.test(path))
  t.strictSame(others.toSorted(), [
    'budget.ts',
    'error-table.ts',
    'errors.ts',
    'http/json/field.ts',
  ])
})

t.test('an unknown command of a group: the one that was meant, or all of the group', async (t) => {
  t.match(await runCli(['accounts', 'lst']), { code: 2, err: /Did you mean "accounts list"\?/ })
  t.match(await runCli(['keys', 'xyzzyxyzzy']), { code: 2, err: /keys create, keys list/ })
  t.match(await runCli(['accounts']), { code: 2, err: /accounts create, accounts list/ })
})

t.test('an unknown option of `start` is wrong use: 2', async (t) => {
  for (const words of [['--foo'], ['extra'], ['--config'], ['--json']]) {
    const { code, out, err } = await runCli(['start', ...words])
    t.equal(code, 2, words.join(' '))
    t.equal(out, '')
    t.match(err, /^tollgate: \S/)
  }
})

t.test('the help of `start` starts nothing', async (t) => {
  const { code, out } = await runCli(['start', '--help'])
  t.equal(code, 0)
  t.match(out, /^Usage: tollgate start \[OPTIONS\]\n/)
  t.equal((await runCli(['help', 'start'])).out, out)
})

t.test('the file to start with is the one given', async (t) => {
  const { code, err } = await runCli(['start', '--config', `${t.testdir()}/none.yaml`])
  t.equal(code, 78)
  t.match(err, /none\.yaml/)
})
