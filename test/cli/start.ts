import t from 'tap'
import { runCli } from '../fixtures/cli.ts'

t.test('an unknown option of `start` is wrong use: 2', async (t) => {
  for (const words of [['--foo'], ['extra'], ['--config'], ['--json']]) {
    const { code, out, err } = await runCli(['start', ...words])
    t.equal(code, 2, words.join(' '))
    t.equal(out, '')
    t.match(err, /^tollgate: \S/)
  }
})

t.test('its help starts nothing', async (t) => {
  const { code, out } = await runCli(['start', '--help'])
  t.equal(code, 0)
  t.match(out, /^Usage: tollgate start \[OPTIONS\]\n/)
  t.equal((await runCli(['help', 'start'])).out, out)
})

t.test('the file is the one given', async (t) => {
  const { code, err } = await runCli(['start', '--config', `${t.testdir()}/none.yaml`])
  t.equal(code, 78)
  t.match(err, /none\.yaml/)
})
