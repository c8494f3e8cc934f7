// Times and words of a query.

import t from 'tap'
import { oneOf, parseSeconds } from '../../src/http/query.ts'

const query = (text: string) => new URLSearchParams(text)

t.test('a time is Unix seconds, once', async (t) => {
  t.equal(parseSeconds(query('from=1795200000'), 'from'), 1795200000)
  t.equal(parseSeconds(query(''), 'from'), undefined)
  for (const bad of [
    'from=',
    'from=-1',
    'from=1.5',
    'from=1e3',
    'from=999999999999',
    'from=1&from=2',
  ])
    t.throws(() => parseSeconds(query(bad), 'from'), { code: 'invalid_parameter', param: 'from' })
})

t.test('a word is one of those that are known', async (t) => {
  const words = ['json', 'csv', 'xml'] as const
  t.equal(oneOf(query('format=csv'), 'format', words), 'csv')
  t.equal(oneOf(query(''), 'format', words), undefined)
  t.throws(() => oneOf(query('format=CSV'), 'format', words), {
    code: 'invalid_parameter',
    param: 'format',
    message: '"format" must be json, csv or xml.',
  })
})
