// The Go client: its driver, built by the go command into the cache, and its own checks.

import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Language } from '../language.ts'
import { checkExamples, checkPackage } from './go/readme.ts'
import { ensureBuilt, ensureStaticcheck, home, inHome, outputOf } from './go/tools.ts'

/** The oldest that the client promises. */
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
    examples: checkExamples,
  },
}

async function checkFormat(): Promise<void> {
  const unformatted = await outputOf('gofmt', ['-l', '.'], { cwd: home })
  if (unformatted !== '') throw new Error(`gofmt would change ${unformatted}`)
}

/** With the race detector where there is a C compiler for it. */
async function checkTests(): Promise<void> {
  const hasCgo = (await outputOf('go', ['env', 'CGO_ENABLED'], { cwd: home })) === '1'
  const hasCompiler = await outputOf('gcc', ['--version']).then(
    () => true,
    () => false,
  )
  await inHome('go', ['test', ...(hasCgo && hasCompiler ? ['-race'] : []), './...'])
}

/** That every name is documented is a test of the client's own; this is what a reader sees. */
async function checkDocs(): Promise<void> {
  const text = await outputOf('go', ['doc', '-all', '.'], { cwd: home })
  const files = await readdir(join(home, 'examples'))
  for (const word of ['func NewClient(', 'func (s *MessagesService) Create(', 'PACKAGE']) {
    const is = word === 'PACKAGE' ? text.startsWith('package tollgate') : text.includes(word)
    if (!is) throw new Error(`go doc does not show ${word}`)
  }
  if (files.length === 0) throw new Error('there are no examples')
  await inHome('go', ['test', '-count=1', '-run', 'Documented', '.'])
}
