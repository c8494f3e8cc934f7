// The client libraries have types for what the gateway answers: each has to know every field that the OpenAPI document
// has. (Fields that are newer than a library are kept as they came; clients/conformance has cases for that.)

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { objects } from '../src/openapi/objects.ts'
import type { Fields } from '../src/openapi/fields.ts'
import { transactionTypes } from '../src/ledger/transaction.ts'
import { clientLanguages, fieldsOfClient } from './fixtures/client-types.ts'
import type { ClientLanguage } from './fixtures/client-types.ts'
import { root } from './fixtures/source.ts'

type Names = Readonly<Record<ClientLanguage, string>>

const same = (name: string): Names => ({ typescript: name, python: name, go: name, rust: name })

/** What the libraries call each object; a dot leads to an object inside. */
const types: Readonly<Record<string, Names>> = {
  Session: same('Session'),
  Message: { ...same('Message'), rust: 'ChatMessage' },
  'Message.usage': { ...same('TokenUsage'), go: 'Usage', rust: 'Usage' },
  File: { ...same('File'), typescript: 'FileObject', rust: 'FileObject' },
  Transaction: same('Transaction'),
  'Transaction.usage': { ...same('TokenUsage'), go: 'Usage', rust: 'Usage' },
  'Usage row': { ...same('UsageBucket'), typescript: 'Usage', rust: 'UsageSum' },
  Balance: same('Balance'),
  Model: same('Model'),
  'Error.error': { ...same('APIError'), rust: 'ApiError' },
}

/** The names of fields that a library writes in its own way. */
const aliases: Readonly<Partial<Record<ClientLanguage, Readonly<Record<string, string>>>>> = {
  typescript: { 'Error.error message': 'detail' },
  go: {
    'Error.error message': 'Message',
    'Error.error type': 'Type',
    'Error.error param': 'Param',
    'Error.error code': 'Code',
  },
  rust: { 'Error.error type': 'kind' },
}

/** The classes of these libraries say what an object is. */
const withoutObject: readonly ClientLanguage[] = ['python', 'rust']

/** Of a refusal, only what every refusal has; the rest is in the JSON that came. */
const ofError = ['message', 'type', 'param', 'code']

function documented(title: string): readonly string[] {
  const [name = '', member] = title.split('.')
  const fields: Fields = objects[name as keyof typeof objects]
  const found = member === undefined ? fields : memberOf(fields, member)
  const names = Object.keys(found).map((one) => one.replace('?', ''))
  return title === 'Error.error' ? ofError : names
}

function memberOf(fields: Fields, name: string): Fields {
  const inner = (fields[name] ?? fields[`${name}?`])?.fields
  if (!inner) throw new Error(`${name} has no members`)
  return inner
}

for (const language of clientLanguages) {
  t.test(`${language} knows every field`, async (t) => {
    for (const [title, names] of Object.entries(types)) {
      const known = fieldsOfClient(language, names[language])
      const lacking = documented(title).filter((field) => {
        const isClass = field === 'object' && withoutObject.includes(language)
        return !isClass && !known.has(aliases[language]?.[`${title} ${field}`] ?? field)
      })
      t.strictSame(lacking, [], `${title} in ${names[language]}`)
    }
  })
}

t.test('a field that a library lacks is noticed', async (t) => {
  for (const language of clientLanguages) {
    t.notOk(fieldsOfClient(language, types['Balance']?.[language] ?? '').has('strange'), language)
    t.ok(fieldsOfClient(language, types['Balance']?.[language] ?? '').has('owed'), language)
  }
  t.throws(() => fieldsOfClient('go', 'Strange'))
})

t.test('the types of transactions are those of the gateway', async (t) => {
  const wordsIn = (file: string, list: RegExp, word: RegExp) => {
    const [text = ''] = list.exec(readFileSync(join(root, 'clients', file), 'utf8')) ?? []
    return [...text.matchAll(word)].map(([, name]) => name)
  }
  const rust = wordsIn('rust/src/types.rs', /^    TransactionType \{[^}]*\}/m, /= "(\w+)"/g)
  t.same(new Set(rust), new Set(transactionTypes), 'Rust')
  const typescript = wordsIn(
    'typescript/src/billing.ts',
    /\n  (readonly )?type:(\s*\|\s*'\w+')+/,
    /'(\w+)'/g,
  )
  t.same(new Set(typescript), new Set(transactionTypes), 'TypeScript')
})
