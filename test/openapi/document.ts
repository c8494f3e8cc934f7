// That the gateway keeps to the document is tested by the fuzz (test/journeys/fuzz.ts).

import { Validator } from '@seriousme/openapi-schema-validator'
import t from 'tap'
import { errorTable } from '../../src/error-table.ts'
import { openapi, templated } from '../../src/openapi/document.ts'
import { groups } from '../../src/openapi/groups.ts'
import { parseLine } from '../../src/openapi/operation.ts'

type Json = Readonly<Record<string, unknown>>

const all = openapi(() => true, 'tollgate')
const text = JSON.stringify(all)

/** By `GET /v1/models`, with `:id` as `{id}`. */
function operationsIn(document: Json): ReadonlyMap<string, Json> {
  const paths = Object.entries(document['paths'] as Readonly<Record<string, Json>>)
  return new Map(
    paths.flatMap(([path, item]) =>
      Object.entries(item)
        .filter(([name]) => name !== 'servers')
        .map(([method, one]) => [`${method.toUpperCase()} ${path}`, one as Json] as const),
    ),
  )
}

t.test('it is valid OpenAPI 3.1', async (t) => {
  const validator = new Validator()
  const { valid, errors } = await validator.validate(structuredClone(all))
  t.strictSame(errors, undefined)
  t.ok(valid)
  t.equal(validator.version, '3.1')
  const broken = structuredClone({ ...all, paths: { '/x': { get: { responses: 1 } } } })
  t.notOk((await new Validator().validate(broken)).valid, 'and the validator says when it is not')
})

t.test('every reference leads somewhere, and every component is referred to', async (t) => {
  const wanted = new Set([...text.matchAll(/"#\/components\/(\w+\/[\w.-]+)"/g)].map(([, to]) => to))
  const components = all['components'] as Readonly<Record<string, Json>>
  const there = Object.entries(components).flatMap(([kind, named]) =>
    Object.keys(named).map((name) => `${kind}/${name}`),
  )
  const open = [...wanted].filter((one) => !there.includes(one ?? ''))
  t.strictSame(open, [])
  const idle = there.filter(
    (one) => !wanted.has(one) && !/^(securitySchemes|headers|parameters)\//.test(one),
  )
  t.strictSame(idle, [])
})

t.test('it has each operation, with ids that differ', async (t) => {
  const lines = groups.flatMap(({ operations }) =>
    Object.keys(operations).flatMap((line) => {
      const { method, paths } = parseLine(line)
      return paths.map((path) => `${method} ${templated(path)}`)
    }),
  )
  const found = operationsIn(all)
  t.strictSame([...found.keys()].toSorted(), lines.toSorted())
  const ids = new Set([...found.values()].map(({ operationId }) => operationId))
  t.equal(ids.size, found.size)
})

t.test('a plugin that is off has no operation', async (t) => {
  const found = operationsIn(openapi((plugin) => plugin !== 'files', 'tollgate'))
  t.notOk([...found.keys()].some((line) => line.includes('/files')))
  t.ok(found.has('GET /api/chat/sessions'))
})

t.test('each refusal of the table of errors is of some operation', async (t) => {
  // Of the other port, of streams only, and one that no route sends.
  const other =
    /admin|^log_?in_|^account_(not|in_use|deleted)|^invalid_configuration|^message_cancelled|^context_length|^reference_reused/
  for (const code of Object.keys(errorTable)) {
    if (other.test(code)) continue
    t.ok(text.includes(`"${code}"`), code)
  }
})

t.test('each operation that needs a key says so, with its scope', async (t) => {
  const found = operationsIn(all)
  t.strictSame(found.get('GET /openapi.json')?.['security'], [])
  t.strictSame(found.get('GET /v1/models')?.['security'], [{ key: [] }])
  t.strictSame(found.get('POST /v1/chat')?.['security'], [{ key: ['chat'] }])
  t.strictSame(found.get('GET /account/api/me')?.['security'], [{ cookie: [] }])
})

t.test('what is under /api is also under /v1/api', async (t) => {
  const { paths } = all as { paths: Readonly<Record<string, Json>> }
  for (const [path, { servers }] of Object.entries(paths)) {
    const mounts = (servers as readonly { url: string }[] | undefined)?.map(({ url }) => url)
    t.strictSame(mounts, path.startsWith('/api/') ? ['/', '/v1'] : undefined, path)
  }
})

t.test('it has no links, which would lead nowhere', async (t) => {
  t.notMatch(text, /\]\([\w#./-]+\)/)
})
