// src/files/places.ts: who has them, and that all come back.

import t from 'tap'
import { createPlaces } from '../../src/files/places.ts'

t.test('an account has so many and no more, whatever others have', async (t) => {
  const places = createPlaces(2)
  const giveBack = places.take('a')
  places.take('a')
  t.throws(() => places.take('a'), { code: 'concurrency_limit_exceeded', retryAfterMs: 1000 })
  places.take('b')
  giveBack()
  giveBack()
  places.take('a')
  t.throws(() => places.take('a'), { code: 'concurrency_limit_exceeded' })
})
