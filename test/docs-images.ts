// The pictures of docs/images: a document shows each, and those that are drawn from texts are those of their texts.

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

for (const name of names.filter((one) => one.endsWith('.svg'))) {
  t.ok(
    texts.some((text) => text.includes(`images/${name})`)),
    `a document shows ${name}`,
  )
}

for (const name of names.filter((one) => one.endsWith('.mmd'))) {
  t.test(name, async (t) => {
    const read = (file: string) => readFile(new URL(`docs/images/${file}`, root), 'utf8')
    const [mark] = (await read(name.replace(/mmd$/, 'svg'))).split('\n')
    t.equal(mark, markOf(await read(name)), 'drawn anew: npm run pictures')
  })
}
