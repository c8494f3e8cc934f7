// Tries what the README says as a new user would: installs the module from its archive into an empty one, runs the
// first program there, and runs every other block and the examples against a real gateway.

import assert from 'node:assert/strict'
import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Gate } from '../../language.ts'
import { blocksOf, environmentOf, inFolder } from '../tools.ts'
import { asStranger } from '../install.ts'
import { home, outputOf } from './tools.ts'

const module = 'tollgate-gateway.example/clients/go'
const version = 'v0.1.0'

/** Standard packages that a block may use. */
const packages = ['errors', 'fmt', 'io', 'net/http', 'net/url', 'os', 'strings', 'time']

/** Builds the module, installs it from a folder that acts as the module proxy, and runs the first example. */
export async function checkPackage(gate: Gate): Promise<void> {
  await inFolder(async (folder) => {
    const proxy = join(folder, 'proxy')
    await outputOf('go', ['run', './internal/pack', proxy, version])
    const env = {
      GOPROXY: pathToFileURL(proxy).href,
      GOSUMDB: 'off',
      GOMODCACHE: join(folder, 'modules'),
      // Otherwise the files could not be deleted.
      GOFLAGS: '-buildvcs=false -p=2 -modcacherw',
      ...environmentOf(gate),
    }
    const cwd = join(folder, 'stranger')
    await mkdir(cwd)
    await outputOf('go', ['mod', 'init', 'example.com/stranger'], { cwd, env })
    await outputOf('go', ['get', `${module}@${version}`], { cwd, env })
    await checkFirstExample(cwd, env)
  })
}

/** Installs from a clone, as the README says, without any network. */
export async function checkInstall(gate: Gate): Promise<void> {
  await asStranger('go', async ({ cwd, install }) => {
    const env = { GOPROXY: 'off', ...environmentOf(gate) }
    await install()
    await checkFirstExample(cwd, env)
  })
}

async function checkFirstExample(cwd: string, env: Readonly<Record<string, string>>) {
  const [first = ''] = await blocks()
  await writeFile(join(cwd, 'main.go'), first)
  const printed = await outputOf('go', ['run', '.'], { cwd, env })
  if (printed === '') throw new Error('the first example printed nothing')
}

/** Runs every block but the first, as functions of one program, then each file of examples/. */
export async function checkExamples(gate: Gate): Promise<void> {
  const env = environmentOf(gate)
  await inFolder(async (cwd) => {
    const [, ...others] = await blocks()
    await writeFile(join(cwd, 'main.go'), programOf(others))
    const lines = [
      'module example.com/readme',
      'go 1.23',
      `require ${module} ${version}`,
      `replace ${module} => ${home}`,
    ]
    await writeFile(join(cwd, 'go.mod'), lines.join('\n'))
    await outputOf('go', ['run', '.'], { cwd, env })
  })
  const examples = await readdir(join(home, 'examples'))
  assert.notEqual(examples.length, 0)
  for (const name of examples) {
    const printed = await outputOf('go', ['run', `./examples/${name}`], { env })
    if (printed === '') throw new Error(`examples/${name} printed nothing`)
  }
}

export function blocks(): Promise<readonly string[]> {
  return blocksOf(join(home, 'README.md'), 'go')
}

/** A block can use the variables that the README names, and returns its error. */
function programOf(found: readonly string[]): string {
  const all = found.join('\n')
  const imports = packages.filter((name) => all.includes(`${name.split('/').at(-1)}.`))
  const functions = found.map(
    (
      block,
      i,
    ) => `func block${i}(ctx context.Context, client *tollgate.Client, session *tollgate.Session, messageID, lastEventID string) error {
${/^(?!for|\t).*\berr :?=/m.test(block) ? '' : 'var err error\n'}${block}
	return ${/errors\.Is/.test(block) ? 'nil' : 'err'}
}`,
  )
  return `package main

import (
	"context"
	"log"
	${[...imports].map((name) => `"${name}"`).join('\n\t')}

	tollgate "${module}"
)

${functions.join('\n\n')}

func main() {
	ctx := context.Background()
	client, err := tollgate.NewClient()
	check(err)
	for _, block := range []func(context.Context, *tollgate.Client, *tollgate.Session, string, string) error{
		${found.map((_, i) => `block${i},`).join(' ')}
	} {
		session, err := client.Sessions.Create(ctx, tollgate.SessionParams{})
		check(err)
		message, err := client.Messages.Send(ctx, session.ID, tollgate.Text("Hi"))
		check(err)
		check(block(ctx, client, session, message.ID, message.ID + ":0"))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
`
}
