// Every second route, fuzzed: fixtures/fuzz-half.ts. The others: fuzz-more.ts.

import t from 'tap'
import { fuzzHalf } from '../fixtures/fuzz-half.ts'

t.test('no 5xx, no undocumented status, nothing against its schema', (t) => fuzzHalf(t, 0))
