import t from 'tap'
import { headsOf, summaryOf } from '../../../src/cli/completion/completed.ts'
import { completedCommands } from '../../fixtures/completed.ts'

t.test('commands are grouped by their first words', async (t) => {
  const heads = headsOf(completedCommands)
  t.same([...heads.keys()], ['check', 'keys'])
  t.equal(summaryOf(heads.get('check') ?? []), "the file's problems: all")
  t.equal(summaryOf(heads.get('keys') ?? []), 'create, list')
})
