// The Go client: its driver, which the go command builds in the cache, and its own checks.

import type { Language } from '../language.ts'
import { blocks, checkExamples, checkInstall, checkPackage } from './go/readme.ts'
import { ensureBuilt, ensureStaticcheck, inHome, outputOf } from './go/tools.ts'

/** The oldest Go version that the client supports. */
const oldest = [1, 23] as const

export const go: Language = {
  name: 'go',
  async missing() {
    const found = await outputOf('go', ['env', 'GOVERSION']).catch(() => '')
    const [major = 0, minor = 0] = found.replace(/^go/, '').split('.').map(Number.parseFloat)
    const isNew = major > oldest[0] || (major === oldest[0] && minor >= oldest[1])
    return isNew ? [] : [`Go ${oldest.join('.')} or later`]
  },
  async driver() {
    return { command: await ensureBuilt(), words: [] }
  },
  checks: {
    types: () => inHome('go', ['vet', './...']),
    lint: async () => inHome(await ensureStaticcheck(), ['-checks', 'all', './...']),
    format: checkFormat,
    tests: checkTests,
    docs: checkDocs,
    package: checkPackage,
    install: checkInstall,
    examples: checkExamples,
  },
}

/** Also checks the blocks of the README. */
async function checkFormat(): Promise<void> {
  const changes = [await outputOf('gofmt', ['-d', '.'])]
  for (const input of await blocks()) changes.push(await outputOf('gofmt', ['-d'], { input }))
  const all = changes.join('\n').trim()
  if (all !== '') throw new Error(`gofmt would change\n${all}`)
}

/** Uses the race detector when there is a C compiler for it. */
async function checkTests(): Promise<void> {
  const hasCgo = (await outputOf('go', ['env', 'CGO_ENABLED'])) === '1'
  const hasCompiler = await outputOf('gcc', ['--version']).then(
    () => true,
    () => false,
  )
  await inHome('go', ['test', ...(hasCgo && hasCompiler ? ['-race'] : []), './...'])
}

/** Prints the docs as a reader sees them. A test of the client checks that every name is documented. */
async function checkDocs(): Promise<void> {
  const text = await outputOf('go', ['doc', '-all', '.'])
  for (const name of [
    /^package tollgate/,
    /^func NewClient\(/m,
    /^func \(s \*MessagesService\) Create\(/m,
  ]) {
    if (!name.test(text)) throw new Error(`go doc does not show ${name}`)
  }
}
