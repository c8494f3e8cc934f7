import t from 'tap'
import type { Command } from '../../src/cli/command.ts'
import { helpOf, overview } from '../../src/cli/help.ts'

const command: Command = {
  name: 'things make',
  words: ['NAME', 'SIZE?'],
  summary: 'make a thing',
  options: { colour: { value: 'COLOUR', help: 'red or blue' }, quick: { help: 'at once' } },
  run: async () => 0,
}

t.test('the overview has a line for each command', async (t) => {
  t.match(overview([command]), /\n {2}things make NAME \[SIZE\] {2}make a thing\n/)
})

t.test("a command's help has its options and those of all", async (t) => {
  const text = helpOf(command)
  t.match(text, /^Usage: tollgate things make NAME \[SIZE\] \[OPTIONS\]\n\nMake a thing\.\n\n/)
  for (const line of ['--colour COLOUR', '--quick', '--admin URL', '--json', '--help']) {
    t.match(text, `\n  ${line} `)
  }
  t.notMatch(helpOf({ ...command, isLocal: true }), '--admin')
})
