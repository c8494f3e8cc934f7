// The archive that would be published: what it contains, and how much it adds to a web page.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { outputOf } from '../tools.ts'

/** The size of the bundle with its dependency, minified and gzipped. */
const maxBytes = 12_000

/** `folder`: the copy of the sources. */
export async function checkArchive(folder: string): Promise<void> {
  const told = await outputOf('npm', ['pack', '--dry-run', '--json', '--silent'], {
    cwd: folder,
  })
  const [{ files }] = JSON.parse(told) as [{ files: readonly { readonly path: string }[] }]
  const wanted = /^(dist\/[a-z-]+\.(js|d\.ts)|(README|CHANGELOG)\.md|LICENSE|package\.json)$/
  const strange = files.map(({ path }) => path).filter((path) => !wanted.test(path))
  assert.deepEqual(strange, [], 'files that do not belong into the archive')
  const { version } = JSON.parse(await readFile(join(folder, 'package.json'), 'utf8')) as {
    version: string
  }
  const source = await readFile(join(folder, 'src/version.ts'), 'utf8')
  assert.ok(source.includes(`'${version}'`), `src/version.ts does not say ${version}`)
  const size = await sizeOf(folder)
  assert.ok(size <= maxBytes, `it adds ${size} bytes to a page, not ${maxBytes} at most`)
}

async function sizeOf(folder: string): Promise<number> {
  const words = ['src/tollgate.ts', '--bundle', '--minify', '--format=esm', '--target=es2022']
  return gzipSync(await outputOf('node_modules/.bin/esbuild', words, { cwd: folder }), { level: 9 })
    .length
}
