// A document that a comment or a page names is in the repository; so is the section, if one is named.

import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { root } from './fixtures/source.ts'

const folders = ['src', 'test', 'scripts', 'clients', 'bench', 'docs', 'config']
const textual = /\.(ts|js|cjs|lua|py|go|rs|md|yaml|json|toml)$/
const installed = /(^|\/)(node_modules|target|dist|build|data|__pycache__|\.[\w-]+|[\w-]*venv)\//

const files = [
  ...readdirSync(root).filter((name) => name.endsWith('.md')),
  ...folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .map((path) => join(folder, path))
      .filter((path) => textual.test(path) && !installed.test(path)),
  ),
]

/** Names of example files, which are no documents. */
const names: readonly string[] = ['copy.md']

/** What is written there becomes docs/api.md. */
const ofApiPage = /^(src|test)\/openapi\//

/** Paths are relative to the root, or to the file that names them. */
function find(name: string, from: string): string | undefined {
  const folder = ofApiPage.test(from) ? 'docs' : dirname(from)
  return [name, join(folder, name)].find((path) => existsSync(join(root, path)))
}

function anchorsOf(path: string): ReadonlySet<string> {
  const text = readFileSync(join(root, path), 'utf8')
  const titles = [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
    title
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-'),
  )
  const ids = [...text.matchAll(/<a id="([^"]+)">/g)].map(([, id = '']) => id)
  return new Set([...titles, ...ids])
}

t.test('named documents and sections exist', async (t) => {
  t.ok(files.length > 500)
  const lacking: string[] = []
  for (const file of files) {
    const text = readFileSync(join(root, file), 'utf8')
    for (const [all, name = '', anchor] of text.matchAll(
      /(?<![\w:/.-])([\w./-]*\w\.md)\b(?:#([\w-]+))?/g,
    )) {
      const found = find(name, file)
      if (found === undefined && !names.includes(name)) lacking.push(`${file}: ${all}`)
      if (found !== undefined && anchor !== undefined && !anchorsOf(found).has(anchor)) {
        lacking.push(`${file}: ${all}`)
      }
    }
    const own = file.endsWith('.md') ? text.matchAll(/\]\(#([\w-]+)\)/g) : []
    for (const [all, anchor = ''] of own) {
      if (!anchorsOf(file).has(anchor)) lacking.push(`${file}: ${all}`)
    }
  }
  t.strictSame(lacking, [])
})
