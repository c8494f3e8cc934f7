// Finds the gateway that a command calls: by its options, else by gateway.yaml. Of the file only `admin` and `data` are
// read: a shell that asks for a balance need not have the environment variables with the models' keys.

import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { defaultAdmin, parseHostPort } from '../config/host-port.ts'
import type { Tree } from '../config/tree.ts'
import { CliError, exit, usageError } from './command.ts'
import type { Call } from './command.ts'

export interface Where {
  readonly url: URL
  readonly token: string
}

/** `given` is a configuration file. */
export async function findGateway(call: Call, given = call.text('config')): Promise<Where> {
  const found = await find(call, given)
  if (/^[\x20-\x7e]+$/.test(found.token)) return found
  const why = found.token === '' ? 'is empty' : 'has characters that no header can carry'
  throw new CliError(exit.refused, `The admin token ${why}.`)
}

async function find({ io, text }: Call, given: string | undefined): Promise<Where> {
  const url = text('admin')
  // A variable that was filled from a file often ends with a line feed, which is no part of the secret.
  const inEnvironment = io.env.TOLLGATE_ADMIN_TOKEN?.trim() || undefined
  const token = (await givenToken({ io, text })) ?? inEnvironment
  if (url !== undefined && token !== undefined) return { url: parseUrl(url), token }
  const file = await readKeys(given, io.env)
  return {
    url: url === undefined ? file.url() : parseUrl(url),
    token: token ?? (await file.token()),
  }
}

const visible =
  'Other users of this machine can see --token in the list of processes: use --token-file or TOLLGATE_ADMIN_TOKEN instead.\n'

async function givenToken({ io, text }: Pick<Call, 'io' | 'text'>): Promise<string | undefined> {
  const [token, file] = [text('token'), text('token-file')]
  if (token !== undefined) io.stderr.write(visible)
  if (token !== undefined || file === undefined) return token
  const content = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CliError(exit.usage, `${file} cannot be read (${error.code ?? error.message})`)
  })
  return content.trim()
}

function parseUrl(text: string): URL {
  const url = URL.parse(text.includes('://') ? text : `http://${text}`)
  if (!url || !/^https?:$/.test(url.protocol)) {
    throw usageError('--admin takes a URL such as http://127.0.0.1:9090.')
  }
  return url
}

interface Keys {
  url(): URL
  token(): Promise<string>
}

const defaultFile = 'gateway.yaml'

async function readKeys(given: string | undefined, env: Call['io']['env']): Promise<Keys> {
  const file = given ?? defaultFile
  const folder = dirname(resolve(file))
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (given === undefined && error.code === 'ENOENT') return ''
    throw broken(file, `cannot be read (${error.code ?? error.message})`)
  })
  const [{ parseTree, treeAt }, { substitute }] = await Promise.all([
    import('../config/tree.ts'),
    import('../config/substitute.ts'),
  ])
  const { tree, problems } = parseTree(text)
  if (problems[0]) throw broken(`${file}:${problems[0].line}`, problems[0].message)
  const at = async (...path: string[]) => {
    const node = treeAt(tree, path)
    if (!node) return undefined
    const replaced = await substitute(node, { env, folder })
    const [problem] = replaced.problems
    if (problem) throw broken(`${file}:${problem.line}: ${path.join('.')}`, problem.message)
    return plain(replaced.tree)
  }
  const [listen, token, data] = [
    await at('admin', 'listen'),
    await at('admin', 'token'),
    await at('data'),
  ]
  return {
    url: () => listenerUrl(listen) ?? fail(file),
    token: async () =>
      typeof token === 'string' && token !== ''
        ? token
        : readToken(resolve(folder, typeof data === 'string' ? data : 'data')),
  }
}

function broken(place: string, message: string): CliError {
  return new CliError(exit.configuration, `${place}: ${message}`)
}

function fail(file: string): never {
  throw broken(file, 'admin.listen names no port to call. Give --admin URL.')
}

function plain(tree: Tree): unknown {
  if (tree.kind === 'scalar') return tree.value
  if (tree.kind === 'list') return tree.items.map(plain)
  return Object.fromEntries(tree.entries.map(({ key, value }) => [key, plain(value)]))
}

/** `9090`, `"127.0.0.1:9090"`, `{host, port}`; a listener on every address is called on loopback. */
function listenerUrl(listen: unknown): URL | undefined {
  const isShort = typeof listen === 'number' || typeof listen === 'string'
  const given = isShort ? parseHostPort(String(listen)) : (listen ?? {})
  if (!given) return undefined
  const { host, port }: { host: unknown; port: unknown } = { ...defaultAdmin, ...given }
  if (!Number(port)) return undefined
  const name = String(host) === '0.0.0.0' ? '127.0.0.1' : String(host)
  const shown = name === '::' ? '[::1]' : name.includes(':') ? `[${name}]` : name
  return URL.parse(`http://${shown}:${String(port)}`) ?? undefined
}

async function readToken(data: string): Promise<string> {
  const file = join(data, 'admin-token')
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    const why = error.code === 'ENOENT' ? 'the gateway makes it when it starts' : error.code
    const message = `There is no admin token: ${file} cannot be read (${why}). Give --token-file, or set TOLLGATE_ADMIN_TOKEN.`
    throw new CliError(exit.refused, message)
  })
  return text.trim()
}
