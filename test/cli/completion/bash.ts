import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { bashScript } from '../../../src/cli/completion/bash.ts'
import { completedCommands } from '../../fixtures/completed.ts'

const run = promisify(execFile)

/** What a real bash offers for the last of these words. `FILES`: names of files. */
async function offered(...words: readonly string[]): Promise<string> {
  const calling = `
others=FILES
compopt() { others=; }
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_tollgate
[ -n "\${COMPREPLY[*]}" ] && others=
echo "\${COMPREPLY[*]}$others"`
  const script = bashScript(completedCommands) + calling
  return (await run('bash', ['-uc', script, 'bash', 'tollgate', ...words])).stdout.trim()
}

t.test('bash offers commands, options, and names of files only where they are taken', async (t) => {
  t.equal(await offered(''), 'check keys')
  t.equal(await offered('k'), 'keys')
  t.equal(await offered('help', 'c'), 'check')
  t.equal(await offered('keys', ''), 'create list')
  t.equal(await offered('keys', 'create', '--n'), '--name --new')
  t.equal(await offered('keys', 'create', '--name', ''), '')
  t.equal(await offered('keys', 'create', 'x'), '')
  t.equal(await offered('keys', 'nothing', '-'), '')
  t.equal(await offered('check', ''), 'FILES')
  t.equal(await offered('check', '--p'), '--print')
  t.equal(await offered('check', '--config', ''), 'FILES')
  t.equal(await offered('unknown', ''), '')
})
