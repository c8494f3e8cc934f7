import t from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { Attempts } from '../../../src/sessions/asleep/attempts.ts'

const failing = async () => {
  throw new GatewayError('storage_unavailable')
}

t.test('what fails is logged and left, until too much fails in a row', async (t) => {
  const logged: string[] = []
  const attempts = new Attempts({ warn: (_fields: object, text: string) => void logged.push(text) })
  t.equal(await attempts.make('a', async () => true), true)
  t.equal(await attempts.make('b', async () => false), false)
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 7; i++) t.equal(await attempts.make('c', failing), false)
    await attempts.make('d', async () => true)
  }
  t.equal(attempts.failures, 21)
  t.equal(logged.length, 21)
  for (let i = 0; i < 7; i++) await attempts.make('e', failing)
  await t.rejects(attempts.make('f', failing), { code: 'storage_unavailable' })
})

t.test('without Redis there is no point in going on', async (t) => {
  const attempts = new Attempts({ warn: () => t.fail('logged') })
  const away = async () => {
    throw new GatewayError('ledger_unavailable')
  }
  await t.rejects(attempts.make('a', away), { code: 'ledger_unavailable' })
})
