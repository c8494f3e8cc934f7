import t from 'tap'
import { createPlanGuesses } from '../../src/ledger/plan-guesses.ts'

t.test('the default plan is guessed first; of over 10,000 the oldest is dropped', async (t) => {
  const guesses = createPlanGuesses()
  t.equal(guesses.get('a'), 'default')
  guesses.set('a', 'big')
  guesses.set('b', 'big')
  for (let i = 0; i < 9998; i++) guesses.set(`other${i}`, 'x')
  t.equal(guesses.get('a'), 'big')
  guesses.set('one more', 'x')
  t.equal(guesses.get('a'), 'big')
  t.equal(guesses.get('b'), 'default')
})
