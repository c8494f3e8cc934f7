// The pictures of docs/images that are drawn from texts: each is that of its text, and a document shows it.

import { readdir, readFile } from 'node:fs/promises'
import t from 'tap'
import { markOf } from '../scripts/picture-mark.ts'

const root = new URL('../', import.meta.url)
const names = await readdir(new URL('docs/images/', root))
const pages = (await readdir(new URL('docs/', root))).filter((name) => name.endsWith('.md'))
const texts = await Promise.all(
  ['README.md', ...pages.map((name) => `docs/${name}`)].map((path) =>
    readFile(new URL(path, root), 'utf8'),
  ),
)

for (const name of names.filter((one) => one.endsWith('.mmd'))) {
  t.test(name, async (t) => {
    const read = (file: string) => readFile(new URL(`docs/images/${file}`, root), 'utf8')
    const svg = name.replace(/mmd$/, 'svg')
    const [mark] = (await read(svg)).split('\n')
    t.equal(mark, markOf(await read(name)), 'drawn anew: npm run pictures')
    t.ok(
      texts.some((text) => text.includes(`images/${svg})`)),
      'a document shows it',
    )
  })
}
