import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { ensureProgram } from '../../../scripts/apt.ts'
import { zshScript } from '../../../src/cli/completion/zsh.ts'
import { completedCommands } from '../../fixtures/completed.ts'

const run = promisify(execFile)
await ensureProgram('zsh')

/** What a real zsh is told to offer for the last of these words. `FILES`: names of files. */
async function offered(...given: readonly string[]): Promise<string> {
  const before = `
compdef() { }
_files() { print FILES }
_describe() { print -rl -- "\${(@P)@[-1]}" }
`
  const calling = `
words=(tollgate "$@") CURRENT=$(($# + 1))
_tollgate`
  const script = before + zshScript(completedCommands) + calling
  return (await run('zsh', ['-fc', script, 'zsh', ...given])).stdout.trim()
}

t.test('zsh offers commands and options with their help, and names of files', async (t) => {
  t.equal(await offered(''), "check:the file's problems\\: all\nkeys:create, list")
  t.equal(await offered('help', ''), await offered(''))
  t.equal(await offered('keys', ''), 'create:make a key\nlist:all keys')
  t.equal(await offered('keys', 'create', ''), '--name:a name\n--new:a switch')
  t.equal(await offered('keys', 'create', '--name', ''), '')
  t.equal(await offered('check', ''), 'FILES')
  t.equal(await offered('check', '--config', ''), 'FILES')
  t.equal(
    await offered('check', '-'),
    "--print:it's\\: $(false) `false` \\\n--config:a file",
    'nothing of a help text is run',
  )
})
