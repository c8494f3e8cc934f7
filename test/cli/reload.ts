import t from 'tap'
import { runCli, startCli } from '../fixtures/cli.ts'

t.test('prints what has changed', async (t) => {
  const { cli, rewrite, yaml } = await startCli(t)
  t.match(await cli('reload'), { code: 0, out: '0 changes\n' })
  await rewrite(`${yaml.replace('output: 4', 'output: 5')}limits: { headers: 7s }\n`)
  const { code, out } = await cli('reload')
  t.equal(code, 0)
  t.match(out, 'models.m.price.output: 4 → 5\n')
  t.match(out, 'limits.headers: "60s" → "7s" (needs a restart)\n')
  t.match(out, /\n2 changes, 1 of them after a restart\n$/)
  const { out: json } = await cli('reload', '--json')
  t.match(JSON.parse(json), { changes: [{ path: 'limits.headers', needs_restart: true }] })
})

t.test('a bad file: every problem with its place, and the exit code of check', async (t) => {
  const { cli, rewrite, yaml, file } = await startCli(t)
  await rewrite(`${yaml}drian: 1\nlimits: { heartbeat: soon }\n`)
  const { code, out, err } = await cli('reload')
  t.equal(code, 78)
  t.equal(out, '')
  t.match(err, `${file}:`)
  t.match(
    err,
    /drian: unknown key.*\n.*limits\.heartbeat: .*\n2 problems; nothing was changed\.\n$/,
  )
})

t.test('a wrong token and no gateway have their own codes', async (t) => {
  const { cliWith } = await startCli(t)
  t.match(await cliWith({ env: { TOLLGATE_ADMIN_TOKEN: 'wrong' } })('reload'), { code: 77 })
  const nowhere = ['reload', '--admin', 'http://127.0.0.1:1']
  t.match(await runCli(nowhere, { env: { TOLLGATE_ADMIN_TOKEN: 'x' } }), { code: 69 })
})
