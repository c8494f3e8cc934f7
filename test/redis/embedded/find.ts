// src/redis/embedded/find.ts with folders of its own on PATH: real servers behind the names, and an apt-get that needs
// no network.

import {
  chmod,
  mkdir,
  readFile,
  readlink,
  realpath,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { findRedisServer } from '../../../src/redis/embedded/find.ts'
import { redisServerPath } from '../../fixtures/redis-server.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'

const server = await realpath(await redisServerPath())
const notices: string[] = []
const log = { info: (_: object, message: string) => void notices.push(message) }

/** An empty data folder, and a folder that is all of PATH while the test runs. */
async function place(t: Test): Promise<{ data: string; bin: string }> {
  const root = await tempDir(t)
  const [data, bin] = [join(root, 'data'), join(root, 'path')]
  await Promise.all([mkdir(data), mkdir(bin)])
  const { PATH, REDIS_SERVER } = process.env
  process.env.PATH = bin
  delete process.env.REDIS_SERVER
  notices.length = 0
  t.teardown(() => {
    process.env.PATH = PATH
    if (REDIS_SERVER) process.env.REDIS_SERVER = REDIS_SERVER
    else delete process.env.REDIS_SERVER
  })
  return { data, bin }
}

async function script(path: string, text: string): Promise<void> {
  await writeFile(path, `#!/bin/sh\nPATH=/usr/bin:/bin\n${text}\n`)
  await chmod(path, 0o755)
}

t.test('REDIS_SERVER comes first, and stops the search if it is wrong', async (t) => {
  const { data, bin } = await place(t)
  await symlink(server, join(bin, 'redis-server'))
  await symlink(server, join(data, 'redis-server'))
  process.env.REDIS_SERVER = join(data, 'redis-server')
  t.equal(await findRedisServer(data, { log }), join(data, 'redis-server'))
  process.env.REDIS_SERVER = '/bin/true'
  await t.rejects(findRedisServer(data, { log }), /REDIS_SERVER=\/bin\/true does not run/)
})

t.test('then PATH, where another program with that name does not count', async (t) => {
  const { data, bin } = await place(t)
  await script(join(bin, 'redis-server'), 'echo some other program')
  await script(join(bin, 'valkey-server'), 'echo "Valkey server v=8.0.1 sha=0 bits=64"')
  t.equal(await findRedisServer(data, { log }), join(bin, 'valkey-server'))
})

t.test('redis-tools alone contains a server under another name', async (t) => {
  const { data, bin } = await place(t)
  await symlink(server, join(bin, 'redis-check-rdb'))
  const finds = Array.from({ length: 5 }, () => findRedisServer(data, { log }))
  t.strictSame(new Set(await Promise.all(finds)), new Set([join(data, 'bin/redis-server')]))
  t.equal(await readlink(join(data, 'bin/redis-server')), join(bin, 'redis-check-rdb'))
  await rm(join(bin, 'redis-check-rdb'))
  await symlink(server, join(bin, 'moved'))
  await t.rejects(findRedisServer(data, { log }), /no redis-server/, 'a dead link is no server')
})

t.test('it is installed once, however many ask, with new package lists if needed', async (t) => {
  const { data, bin } = await place(t)
  const asked = join(data, 'asked')
  await script(
    join(bin, 'apt-get'),
    `echo "$*" >>'${asked}'
    case "$*" in
      *update*) touch '${data}/lists' ;;
      *install*) [ -e '${data}/lists' ] && ln -s '${server}' '${bin}/redis-check-rdb' ;;
      *download*) [ -e '${data}/lists' ] && touch redis-tools.deb ;;
    esac`,
  )
  await script(
    join(bin, 'dpkg'),
    `mkdir -p "$3/usr/bin" && ln -s '${server}' "$3/usr/bin/redis-check-rdb"`,
  )
  const finds = Array.from({ length: 4 }, () => findRedisServer(data, { log }))
  t.strictSame(new Set(await Promise.all(finds)), new Set([join(data, 'bin/redis-server')]))
  t.equal(notices.length, 1)
  const lines = (await readFile(asked, 'utf8')).trim().split('\n')
  t.equal(lines.filter((line) => line.includes('update')).length, 1)
  await findRedisServer(data, { log })
  t.equal(notices.length, 1, 'and never again')
})

t.test('the log says beforehand what is done; TOLLGATE_INSTALL=no prevents it', async (t) => {
  const { data, bin } = await place(t)
  const asked = join(data, 'asked')
  await script(join(bin, 'apt-get'), `echo "$*" >>'${asked}'; exit 1`)
  await script(join(bin, 'dpkg'), 'exit 1')
  process.env.TOLLGATE_INSTALL = 'no'
  t.teardown(() => delete process.env.TOLLGATE_INSTALL)
  await t.rejects(findRedisServer(data, { log }), /none could be fetched[^]*apt-get install/)
  await t.rejects(readFile(asked), { code: 'ENOENT' }, 'nobody was asked')
  t.same(notices, [])
  delete process.env.TOLLGATE_INSTALL
  await t.rejects(findRedisServer(data, { log }))
  t.match(notices, [/redis-tools .*\(TOLLGATE_INSTALL=no prevents it\)$/])
  t.match(await readFile(asked, 'utf8'), /redis-tools/)
})

t.test('when nothing helps, the error says what to install on each system', async (t) => {
  const { data, bin } = await place(t)
  const expected =
    /Debian[^]*apt-get[^]*Fedora[^]*dnf[^]*Alpine[^]*apk[^]*macOS[^]*brew[^]*docker run/
  await t.rejects(findRedisServer(data, { log }), expected)
  await script(join(bin, 'apt-get'), 'echo "no network" >&2; exit 100')
  await script(join(bin, 'dpkg'), 'exit 1')
  const error = await findRedisServer(data, { log }).then(
    () => undefined,
    (e: Error) => e,
  )
  t.match(error?.message, expected)
  t.match(error?.cause, { stderr: /no network/ })
})
