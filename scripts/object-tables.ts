// Makes the tables of objects in docs/api.md from src/openapi: a row for each field, members of inner objects included.

import { adminObjects } from '../src/openapi/admin-objects.ts'
import type { Fields } from '../src/openapi/fields.ts'
import { objects } from '../src/openapi/objects.ts'
import { pageObjects } from '../src/openapi/page-objects.ts'

/** `Usage row` has the part `object-usage-row`. */
export function objectTables(): Readonly<Record<string, string>> {
  const all = Object.entries<Fields>({ ...objects, ...pageObjects, ...adminObjects })
  return Object.fromEntries(
    all.map(([title, fields]) => [
      `object-${title.toLowerCase().replaceAll(' ', '-')}`,
      ['| field | type | |', '|---|---|---|', ...rowsOf(fields, '')].join('\n'),
    ]),
  )
}

function rowsOf(fields: Fields, at: string): readonly string[] {
  return Object.entries(fields).flatMap(([name, { kind, says, fields: inner = {} }]) => [
    `| \`${at}${name}\` | ${kind} | ${says} |`,
    ...rowsOf(inner, `${at}${name.replace('?', '')}.`),
  ])
}
