import t from 'tap'
import { readFileSync } from 'node:fs'
import { endpoints, fieldsOf } from '../../src/config/endpoints.ts'
import { parameterRows } from '../../src/chat/parameters.ts'

const namesOn = (endpoint: string): ReadonlySet<string> =>
  new Set(
    parameterRows
      .filter((row) => row.endpoints.some((one) => one === endpoint))
      .flatMap(({ names }) => names),
  )

/** The fields of an interface in the official package's types. */
function typedFields(module: string, name: string): readonly string[] {
  const file = new URL(
    `${module.split('/').at(-1)}.d.ts`,
    import.meta.resolve(`openai/resources/${module}`),
  )
  const body = readFileSync(file, 'utf8').split(`interface ${name} {`)[1]?.split('\n}')[0] ?? ''
  return [...body.matchAll(/^ {4}(\w+)\??:/gm)].flatMap(([, field]) => field ?? [])
}

t.test('the table has every field of the openai package', async (t) => {
  for (const [endpoint, module, name, least] of [
    ['chat', 'chat/completions/completions', 'ChatCompletionCreateParamsBase', 35],
    ['completions', 'completions', 'CompletionCreateParamsBase', 17],
    ['embeddings', 'embeddings', 'EmbeddingCreateParams', 5],
    ['moderations', 'moderations', 'ModerationCreateParams', 2],
  ] as const) {
    const fields = typedFields(module, name)
    t.ok(fields.length >= least, `${name}: ${fields.length}`)
    t.strictSame(
      fields.filter((field) => !namesOn(endpoint).has(field)),
      [],
      endpoint,
    )
  }
})

t.test('a name has one row on each endpoint', async (t) => {
  for (const { endpoint, required, media } of endpoints) {
    const names = parameterRows
      .filter((row) => row.endpoints.includes(endpoint))
      .flatMap((row) => row.names)
    t.strictSame(
      names.filter((name, i) => names.indexOf(name) !== i),
      [],
      endpoint,
    )
    for (const name of [required, ...media]) t.ok(names.includes(name), name)
  }
})

t.test('every row has a reason, in sentences; a row with a limit has a check', async (t) => {
  for (const { names, why, way, check } of parameterRows) {
    t.match(why, /\.$/, names.join())
    if (way === 'bounded') t.ok(check, names.join())
  }
})

t.test('an endpoint that generates nothing has one row with its own fields', async (t) => {
  for (const one of endpoints.filter(({ generates }) => !generates)) {
    const rows = parameterRows.filter(({ endpoints: on, way }) => {
      return way === 'gateway' && on.length < endpoints.length && on.includes(one.endpoint)
    })
    t.strictSame(
      rows.map(({ names }) => names),
      [fieldsOf(one)],
      one.endpoint,
    )
  }
  const both = parameterRows.find(({ names }) => names.includes('input'))
  const alike = both?.endpoints.filter((one) => ['embeddings', 'moderations'].includes(one))
  t.strictSame(alike, ['embeddings', 'moderations'], 'those alike share a row')
})
