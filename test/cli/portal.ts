import t from 'tap'
import { startCli } from '../fixtures/cli.ts'

t.test('a link is printed alone, so that a shell can take it', async (t) => {
  const { cli, accounts } = await startCli(t)
  await accounts.createAccount({ name: 'a' })
  const { code, out, err } = await cli('portal', 'a')
  t.equal(code, 0)
  t.match(out, /^http:\/\/localhost:\d+\/account#link=[\w.-]{56}\n$/)
  t.match(err, /^It lets in once, until /)
  const { url } = JSON.parse((await cli('portal', 'a', '--json')).out) as { url: string }
  t.not(`${url}\n`, out)
  t.match(await cli('portal', 'nobody'), { code: 1, err: /account_not_found/ })
  t.match(await cli('portal', 'a', '--return-url', 'https://evil.example'), {
    code: 1,
    err: /return_url/,
  })
})
