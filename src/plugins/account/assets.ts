// The files of the page: all of the folder `page`, and single files of packages.

import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { answering } from '../../exchange.ts'
import type { Exchange, Route } from '../../exchange.ts'
import { createAssets, packageFile } from '../../http/assets.ts'
import { protect } from './headers.ts'

const packages = 'packages/'

/** By their names under `/account/`: a package, and a file in it. */
const ofPackages: Readonly<Record<string, readonly [name: string, file: string]>> = {
  'packages/uplot.js': ['uplot', 'dist/uPlot.esm.js'],
  'packages/uplot.css': ['uplot', 'dist/uPlot.min.css'],
  'packages/marked.js': ['marked', 'lib/marked.esm.js'],
  'packages/dompurify.js': ['dompurify', 'dist/purify.es.mjs'],
  'packages/eventsource-parser/index.js': ['eventsource-parser', 'dist/index.js'],
  'packages/eventsource-parser/parse.js': ['eventsource-parser', 'dist/parse.js'],
  'packages/eventsource-parser/errors.js': ['eventsource-parser', 'dist/errors.js'],
}

/** In the folder for those who change the page. */
const unserved: ReadonlySet<string> = new Set(['tsconfig.json', 'shapes.js'])

/** Throws when a package is missing, or a file has a type that no browser is told. */
export function assetRoutes(): readonly Route[] {
  const answer = createAssets(new Map([...ownFiles(), ...packageFiles()]))
  const get = (path: string, nameOf: (x: Exchange) => string): Route => ({
    method: 'GET',
    path,
    access: 'anybody',
    body: 'none',
    begin: (x) => ({
      check: () => protect(x),
      ...answering(() => answer(x, nameOf(x)))(x),
    }),
  })
  return [
    get('/account', () => 'index.html'),
    get('/account/:file', ({ params }) => params['file'] ?? ''),
    get(`/account/${packages}*`, ({ params }) => packages + (params['*'] ?? '')),
  ]
}

function ownFiles() {
  const folder = join(import.meta.dirname, 'page')
  const names = readdirSync(folder).filter((name) => !unserved.has(name))
  return names.map((name) => [name, join(folder, name)] as const)
}

function packageFiles() {
  const all = Object.entries(ofPackages)
  return all.map(([name, [from, file]]) => [name, packageFile(from, file)] as const)
}
