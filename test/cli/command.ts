import t from 'tap'
import { CliError, exit, optionsOf, usageError } from '../../src/cli/command.ts'
import type { Command } from '../../src/cli/command.ts'

t.test('exit codes are those of the documentation', async (t) => {
  t.strictSame(Object.values(exit), [0, 1, 2, 69, 77, 78])
  t.match(usageError('x'), { exitCode: 2, message: 'x' })
  t.ok(usageError('x') instanceof CliError)
})

t.test('commands that ask a gateway take its address, and can speak JSON', async (t) => {
  const command: Command = { name: 'x', summary: '', run: async () => 0 }
  t.strictSame(Object.keys(optionsOf(command)), [
    'admin',
    'token',
    'token-file',
    'json',
    'config',
    'help',
  ])
  t.strictSame(Object.keys(optionsOf({ ...command, isLocal: true })), ['config', 'help'])
})
