import t from 'tap'
import { join } from 'node:path'
import { formatProblem } from '../../src/config/problem.ts'
import { load } from '../fixtures/config/load.ts'

const target = 'targets: [{ url: http://127.0.0.1:1/v1 }]'
const yaml = `models:
  small: { ${target}, max_output_tokens: 1999 }
  large: { ${target}, max_output_tokens: 4096 }
  vectors: { ${target}, max_output_tokens: 4096, endpoints: [embeddings] }
plans:
  default: { tokens_per_minute: 4097 }
  narrow: { concurrency: 2, tokens_per_minute: 2000 }
  narrower: { tokens_per_minute: 1999 }
  few: { tokens_per_minute: 2000, models: [small] }
`

t.test('a plan with fewer tokens a minute than its models may generate', async (t) => {
  const file = join(t.testdir({ 'gateway.yaml': yaml }), 'gateway.yaml')
  const loaded = await load(file)
  if ('problems' in loaded) return t.fail(loaded.problems.map(formatProblem).join('\n'))
  const told = loaded.warnings.map((warning) => formatProblem(warning).slice(file.length))
  t.equal(told.length, 2)
  t.match(
    told[0],
    /^:7:48: plans\.narrow\.tokens_per_minute: 2000 is not more than .* of large \(4096\): /,
  )
  t.match(told[1], /^:8:34: plans\.narrower\.\S+ 1999 is .* of small \(1999\), large \(4096\): /)
})

t.test('a value that is not in the file is reported at its plan, or at the top', async (t) => {
  const large = `models:\n  m: { ${target}, max_output_tokens: 400000, context_window: 400000 }\n`
  const placesOf = async (text: string) => {
    const loaded = await load(join(t.testdir({ 'gateway.yaml': text }), 'gateway.yaml'))
    if ('problems' in loaded) return t.fail(loaded.problems.map(formatProblem).join('\n'))
    return loaded.warnings.map(({ line, column }) => [line, column])
  }
  t.same(await placesOf(`${large}plans: { default: { concurrency: 1 } }\n`), [[3, 10]])
  t.same(await placesOf(large), [[1, 1]])
})
