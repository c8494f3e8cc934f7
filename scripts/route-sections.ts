// Makes the sections of public routes in docs/api.md, and its tables of queries and headers, from src/openapi.

import type { Fields } from '../src/openapi/fields.ts'
import { groups } from '../src/openapi/groups.ts'
import { requestHeaders, responseHeaders } from '../src/openapi/headers.ts'
import type { HeaderRow } from '../src/openapi/headers.ts'
import { parseLine } from '../src/openapi/operation.ts'
import type { Operation, Query } from '../src/openapi/operation.ts'
import { pageQuery } from '../src/openapi/queries.ts'
import { byStatus } from '../src/openapi/refusals.ts'
import { schemaRows } from './schema-rows.ts'

/** By their names in docs/api.md. */
export function routeSections(): Readonly<Record<string, string>> {
  const sections = groups.map(({ plugin, operations }) => {
    const texts = Object.entries(operations).map(([line, one]) => sectionOf(line, one))
    return [`routes-${plugin}`, texts.join('\n\n')] as const
  })
  return {
    ...Object.fromEntries(sections),
    'page-query': queryTable(pageQuery('')),
    'request-headers': headerTable(requestHeaders),
    'response-headers': headerTable(responseHeaders),
  }
}

function sectionOf(line: string, operation: Operation): string {
  const { method, paths } = parseLine(line)
  const { text = '', after = '' } = operation
  const title = paths.map((path) => `\`${method} ${path}\``).join(', ')
  const parts = [
    `### ${title}`,
    factsOf(operation),
    wrapped(text),
    bodyTable(operation),
    wrapped(answersOf(operation)),
    ownQueryTable(operation),
    wrapped(after),
  ]
  return parts.filter((part) => part !== '').join('\n\n')
}

/** As test/docs-api.ts asks for it. */
function factsOf({ access, query = {}, body, repeats }: Operation): string {
  const needs = { 'any-key': 'any key', anybody: 'no key', cookie: "the page's cookie" }
  const need = needs[access as keyof typeof needs] ?? `scope \`${access}\``
  const asked = Object.keys(query).map((name) => `\`${name}\``)
  const bodies = { json: 'Body: JSON.', form: 'Body: `multipart/form-data`.' }
  const facts = [
    `Needs ${need}.`,
    asked.length > 0 ? `Query: ${asked.join(', ')}.` : '',
    body ? bodies[body.kind] : '',
    repeats ? 'Takes `Idempotency-Key`.' : '',
  ]
  return facts.filter((fact) => fact !== '').join(' ')
}

function bodyTable({ body }: Operation): string {
  if (!body?.fields) return ''
  const rows =
    body.fields === 'schema'
      ? schemaRows(body.schema).map(({ path, type, says }) => `| \`${path}\` | ${type} | ${says} |`)
      : fieldRows(body.fields)
  return ['| field | type | |', '|---|---|---|', ...rows].join('\n')
}

function fieldRows(fields: Fields): readonly string[] {
  return Object.entries(fields).map(
    ([name, { kind, says }]) => `| \`${name.replace('?', '')}\` | ${kind} | ${says} |`,
  )
}

function answersOf({ replies, codes = {} }: Operation): string {
  const good = Object.entries(replies).map(([status, { says }]) => `${status}: ${says}`)
  const bad = [...byStatus(codes)].map(([status, all]) => {
    const named = all.map(([code, note]) => `\`${code}\`${note}`)
    return `${status} ${named.join(', ')}`
  })
  if (bad.length === 0) return good.join(' ')
  const isLong = good.join(' ').length + bad.join('; ').length > mostColumns * 2
  return `${good.join(' ')}${isLong ? '\n\n' : ' '}${bad.join('; ')}.`
}

/** With an anchor, all parameters of the query; else those that not every list has. Of routes with one query, the first has the table. */
function ownQueryTable(operation: Operation): string {
  const { query, queryAnchor } = operation
  if (!query || firstWith.get(query) !== operation) return ''
  if (queryAnchor) return `<a id="${queryAnchor}"></a>\n\n${queryTable(query)}`
  const own = Object.entries(query).filter(([name]) => !ofLists.has(name))
  return own.length > 0 ? queryTable(Object.fromEntries(own)) : ''
}

const ofLists: ReadonlySet<string> = new Set(Object.keys(pageQuery('')))

const firstWith = new Map(
  groups
    .flatMap(({ operations }): Operation[] => Object.values(operations))
    .map((operation) => [operation.query, operation] as const)
    .reverse(),
)

function queryTable(query: Query): string {
  const rows = Object.entries(query).map(
    ([name, { preset = '', says }]) => `| \`${name}\` | ${preset} | ${says} |`,
  )
  return ['| parameter | default | |', '|---|---|---|', ...rows].join('\n')
}

function headerTable(rows: readonly HeaderRow[]): string {
  const lines = rows.map(({ names, says }) => {
    const all = names.map((name) => `\`${name}\``).join(', ')
    return `| ${all} | ${says} |`
  })
  return ['| header | |', '|---|---|', ...lines].join('\n')
}

const mostColumns = 120

/** Breaks lines between words; a paragraph begins after an empty line. */
function wrapped(text: string): string {
  return text
    .split('\n\n')
    .map((paragraph) => {
      const lines = ['']
      for (const word of paragraph.match(/(?:`[^`]*`|\S)+/g) ?? []) {
        const last = lines.at(-1) ?? ''
        if (last.length + word.length >= mostColumns) lines.push(word)
        else lines[lines.length - 1] = last === '' ? word : `${last} ${word}`
      }
      return lines.join('\n')
    })
    .join('\n\n')
}
