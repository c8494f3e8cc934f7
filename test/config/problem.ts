import t from 'tap'
import { didYouMean, formatPath, formatProblem, suggest } from '../../src/config/problem.ts'

t.test('a problem is one line that an editor can jump to', async (t) => {
  const problem = {
    file: 'gateway.yaml',
    line: 12,
    column: 7,
    path: ['models', 'assistant', 'price', 'inptu'],
    message: 'unknown key; did you mean "input"?',
  }
  const line = 'gateway.yaml:12:7: models.assistant.price.inptu: unknown key; did you mean "input"?'
  t.equal(formatProblem(problem), line)
  t.equal(formatProblem({ ...problem, path: [], message: 'x' }), 'gateway.yaml:12:7: x')
})

t.test('a path shows unusual names in quotes', async (t) => {
  t.equal(formatPath(['models', 'gpt-4.1', 'targets', 0, 'url']), 'models.gpt-4.1.targets[0].url')
  t.equal(formatPath(['plugins', './x.ts', 'a b']), 'plugins["./x.ts"]["a b"]')
  t.equal(formatPath(['models', 'line\nbreak']), String.raw`models["line\nbreak"]`)
})

t.test('a similar word is suggested, a very different one is not', async (t) => {
  const words = ['price', 'plugins', 'plans', 'max_output_tokens', 'ca', 'key']
  const meant = {
    prise: 'price',
    pirce: 'price',
    plan: 'plans',
    maxOutputTokens: 'max_output_tokens',
    cxa: 'ca',
  }
  for (const [text, word] of Object.entries(meant)) t.equal(suggest(text, words), word, text)
  for (const text of ['breaker', '', 'x'.repeat(10_000)]) t.equal(suggest(text, words), undefined)
  t.equal(didYouMean('prise', words), '; did you mean "price"?')
  t.equal(didYouMean('breaker', words), '')
})
