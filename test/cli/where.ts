import t from 'tap'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Call } from '../../src/cli/command.ts'
import { findGateway } from '../../src/cli/where.ts'

function call(
  given: Readonly<Record<string, string>>,
  env: Readonly<Record<string, string>> = {},
): Call {
  const out = { write: () => undefined }
  return {
    io: { stdout: out, stderr: out, env },
    words: [],
    text: (name) => given[name],
    list: () => undefined,
    has: (name) => given[name] !== undefined,
    isJson: false,
    admin: () => Promise.reject(new Error('not here')),
  }
}

const found = async (
  given: Readonly<Record<string, string>>,
  env: Readonly<Record<string, string>> = {},
) => {
  const { url, token } = await findGateway(call(given, env))
  return `${url.origin} ${token}`
}

t.test('with all options on the command line, no file is needed', async (t) => {
  const given = { admin: 'http://10.0.0.1:9090', token: 'x', config: '/nowhere' }
  t.equal(await found(given), 'http://10.0.0.1:9090 x')
  t.equal(await found({ admin: 'localhost:1', token: 'x' }), 'http://localhost:1 x')
  t.equal(await found({ admin: '[::1]:1' }, { TOLLGATE_ADMIN_TOKEN: 'e' }), 'http://[::1]:1 e')
  t.equal(await found({ admin: 'a:1', token: 'x' }, { TOLLGATE_ADMIN_TOKEN: 'e' }), 'http://a:1 x')
  for (const admin of ['ftp://a', 'http://', 'a b']) {
    await t.rejects(
      findGateway(call({ admin, token: 'x' })),
      { name: 'CliError', exitCode: 2 },
      admin,
    )
  }
})

t.test('for an invalid token the message blames the token, not the gateway', async (t) => {
  const admin = 'http://10.0.0.1:9090'
  // Mounted secrets end with a line break.
  t.equal(await found({ admin }, { TOLLGATE_ADMIN_TOKEN: 'e\n' }), `${admin} e`)
  const empty = join(t.testdir({ token: '\n' }), 'token')
  const faulty = { exitCode: 77, message: /The admin token/ }
  for (const [option, value] of [
    ['token', 'a\nb'],
    ['token', 'ä'],
    ['token-file', empty],
  ] as const) {
    await t.rejects(findGateway(call({ admin, [option]: value })), faulty)
  }
})

t.test('otherwise the file is used, in each of its notations', async (t) => {
  const listens: readonly (readonly [string, string])[] = [
    ['9191', 'http://127.0.0.1:9191'],
    ['10.1.2.3:9191', 'http://10.1.2.3:9191'],
    ['"[::1]:9191"', 'http://[::1]:9191'],
    ['0.0.0.0:9191', 'http://127.0.0.1:9191'],
    ['":9191"', 'http://127.0.0.1:9191'],
    ['{port: 9191}', 'http://127.0.0.1:9191'],
    ['{host: "::", port: 9191}', 'http://[::1]:9191'],
    ['{host: gateway.internal}', 'http://gateway.internal:9090'],
    ['"${PORT:-9191}"', 'http://127.0.0.1:9191'],
  ]
  const config = join(t.testdir(), 'gateway.yaml')
  for (const [listen, url] of listens) {
    writeFileSync(config, `admin: {listen: ${listen}, token: inside}\n`)
    t.equal(await found({ config }), `${url} inside`, listen)
  }
})

t.test('without a token in the file, the one in the data folder is used', async (t) => {
  const folder = t.testdir({ 'gateway.yaml': 'data: ./state\nadmin: {token: "${T:-}"}\n' })
  const config = join(folder, 'gateway.yaml')
  await t.rejects(findGateway(call({ config })), { exitCode: 77, message: /TOLLGATE_ADMIN_TOKEN/ })
  mkdirSync(join(folder, 'state'))
  writeFileSync(join(folder, 'state', 'admin-token'), 'kept\n')
  t.equal(await found({ config }), 'http://127.0.0.1:9090 kept')
  t.equal(await found({ config }, { T: 'set' }), 'http://127.0.0.1:9090 set')
})

t.test("unset variables in the file's other parts do no harm", async (t) => {
  const text =
    'models: {m: {targets: [{url: http://a/v1, key: "${NOT_HERE}"}]}}\nadmin: {token: x}\n'
  const config = join(t.testdir({ 'gateway.yaml': text }), 'gateway.yaml')
  t.equal(await found({ config }), 'http://127.0.0.1:9090 x')
})

t.test('a file that cannot be used is a configuration error, with its line', async (t) => {
  const config = join(t.testdir(), 'gateway.yaml')
  await t.rejects(findGateway(call({ config })), { name: 'CliError', exitCode: 78 })
  const texts = ['a: [', '\n\nadmin: {token: "${NOT_HERE}"}', 'admin: {listen: 0, token: x}']
  for (const text of texts) {
    writeFileSync(config, text)
    await t.rejects(findGateway(call({ config })), { name: 'CliError', exitCode: 78 }, text)
  }
})

t.test('a token in argv causes a warning; one in a file does not', async (t) => {
  const file = `${t.testdir({ token: 'kept\n' })}/token`
  const said: string[] = []
  const out = { write: (text: string) => void said.push(text) }
  const given = (options: Readonly<Record<string, string>>) => ({
    ...call({ admin: 'a:1', ...options }),
    io: { stdout: out, stderr: out, env: { TOLLGATE_ADMIN_TOKEN: 'of the environment' } },
  })
  t.equal((await findGateway(given({ 'token-file': file }))).token, 'kept')
  t.same(said, [])
  t.equal((await findGateway(given({ token: 'x' }))).token, 'x')
  t.match(said, [/list of processes/])
  await t.rejects(findGateway(given({ 'token-file': `${file}.none` })), /cannot be read \(ENOENT\)/)
})
