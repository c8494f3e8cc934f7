// The check with which the chaos tests of files end: it finds nothing when nothing is left, and each thing that is.

import t from 'tap'
import type { Test } from 'tap'
import { dueMember } from '../../src/files/due.ts'
import { objectName } from '../../src/files/file-row.ts'
import { newId } from '../../src/ids.ts'
import { keys } from '../../src/redis/keys.ts'
import { contentOf } from '../fixtures/content.ts'
import { callerOf } from '../fixtures/files-http.ts'
import { assertNothingLeft, leftIn } from '../fixtures/files-left.ts'
import { partBytes, startFilesWorld } from '../fixtures/files-world.ts'
import type { FilesWorld, WorldSetup } from '../fixtures/files-world.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { startS3 } from '../fixtures/s3-server.ts'
import { until } from '../fixtures/until.ts'

interface Wrong {
  /** The lines that the check must print for it. */
  readonly seen: readonly RegExp[]
  put(): Promise<unknown>
  undo(): Promise<unknown>
}

interface Scene extends FilesWorld {
  readonly ref: string
  readonly session: string
  /** A file that expires, and one that does not. */
  readonly ids: readonly [string, string]
}

const ghost = newId('file')

function wrongInStore({ store, ref, ids }: Scene): Record<string, Wrong> {
  const orphan = (name: string): Wrong => ({
    seen: [new RegExp(`an orphan: ${name}$`)],
    put: () => store.put(name, Buffer.from('x')),
    undo: () => store.remove(name),
  })
  const name = objectName(ref, ghost)
  const [object] = ids.map((id) => objectName(ref, id))
  return {
    'an orphan object': orphan(name),
    'one of an account that there is not': orphan(objectName('nobody000000', ghost)),
    'an object of another shape': orphan('files/x'),
    'an unfinished upload': unfinished(store, name),
    'an object that is not what its row says': {
      seen: [new RegExp(`not what its row says: ${object}: [0-9a-f]{64}$`)],
      put: () => store.put(object ?? '', Buffer.from('hellp')),
      undo: () => store.put(object ?? '', Buffer.from('hello')),
    },
    'a row without an object': {
      seen: [new RegExp(`not what its row says: ${object}: NoSuchObject`)],
      put: () => store.remove(object ?? ''),
      undo: () => store.put(object ?? '', Buffer.from('hello')),
    },
  }
}

function unfinished(store: Scene['store'], name: string): Wrong {
  const stop = new AbortController()
  let uploading: Promise<unknown> | undefined
  return {
    seen: [new RegExp(`an unfinished upload: ${name}$`)],
    async put() {
      const never = new Promise<void>(() => undefined)
      const before = (at: number) => (at > 2 * partBytes ? never : undefined)
      const content = contentOf(3 * partBytes, { before })
      uploading = store.put(name, content, { signal: stop.signal }).catch(() => undefined)
      await until(async () => (await store.unfinished('files/')).length > 0)
    },
    async undo() {
      stop.abort(new Error('enough'))
      await uploading
    },
  }
}

async function wrongInRedis({ redis, ref, session, ids }: Scene): Promise<Record<string, Wrong>> {
  const [id, other] = ids
  const row = await redis.hgetall(keys.file(ref, id))
  const sessionHash = await redis.hgetall(keys.session(ref, session))
  const announced = await redis.zrange(keys.dueAccounts, '0', '-1')
  const storage = keys.storage(ref)
  const due = keys.due(ref)
  const waits = (member: string): Wrong => ({
    seen: [new RegExp(`: waits: ${member}$`)],
    put: () => redis.zadd(due, 0, member),
    undo: () => redis.zrem(due, member),
  })
  const unlisted = (member: string, line: string): Wrong => ({
    seen: [new RegExp(`: ${line}$`)],
    put: () => redis.zrem(due, member),
    undo: () => redis.zadd(due, Date.now() + 3_600_000, member),
  })
  return {
    'a stray row': {
      seen: [
        new RegExp(`not what its row says: files/${ref}/${ghost}: NoSuchObject`),
        new RegExp(`: never expires: ${ghost}$`),
        new RegExp(`: not in its session: ${ghost}$`),
        new RegExp(`: rows \\S*${ghost}\\S*, in sessions (?!\\S*${ghost})`),
        new RegExp(`: rows \\S*${ghost}\\S*, listed (?!\\S*${ghost})`),
        /: used is (\d+), the rows have (?!\1)/,
      ],
      put: () => redis.hset(keys.file(ref, ghost), { ...row, id: ghost }),
      undo: () => redis.del(keys.file(ref, ghost)),
    },
    'one byte too many that is counted': {
      seen: [/: used is (\d+), the rows have (?!\1)\d+$/],
      put: () => redis.hincrby(storage, 'used', 1),
      undo: () => redis.hincrby(storage, 'used', -1),
    },
    'what an upload reserved': {
      seen: [/: reserved is 5$/, new RegExp(`: still reserved: ${ghost}$`)],
      put: () => redis.hset(storage, { reserved: 5, [ghost]: 5 }),
      undo: () => Promise.all([redis.hset(storage, 'reserved', 0), redis.hdel(storage, ghost)]),
    },
    'an upload under way': waits(dueMember('upload', ghost)),
    'an upload that died': waits(dueMember('abandoned', ghost, 1)),
    'a file that would never expire': unlisted(dueMember('expiry', id), `never expires: ${id}`),
    'files that would outlive their session': {
      ...unlisted(dueMember('session', session), ''),
      seen: ids.map((one) => new RegExp(`: would outlive its session: ${one}$`)),
    },
    'files that have outlived it': {
      seen: ids.map((one) => new RegExp(`: its session has gone: ${one}$`)),
      put: () => redis.del(keys.session(ref, session)),
      undo: () => redis.hset(keys.session(ref, session), sessionHash),
    },
    'a listed file without a row': {
      seen: [new RegExp(`: rows (?!\\S*${ghost})\\S*, listed \\S*${ghost}`)],
      put: () => redis.zadd(keys.files(ref), 0, ghost),
      undo: () => redis.zrem(keys.files(ref), ghost),
    },
    'a file that its session does not list': {
      seen: [
        /: not in its session: /,
        new RegExp(`: rows \\S*${other}\\S*, in sessions (?!\\S*${other})`),
      ],
      put: () => redis.zrem(keys.sessionFiles(ref, session), other),
      undo: () => redis.zadd(keys.sessionFiles(ref, session), 0, other),
    },
    'what no sweeper would come for': {
      seen: [/: something is due that nobody looks for$/],
      put: () => redis.del(keys.dueAccounts),
      undo: () => redis.zadd(keys.dueAccounts, ...announced.flatMap((one) => [0, one])),
    },
  }
}

async function seesAll(t: Test, setup: WorldSetup): Promise<void> {
  const world = await startFilesWorld(t, setup)
  const { url, account } = await startGateway(t, { yaml: world.yaml, redis: world.server })
  const own = await callerOf({ url }, (await account(1000)).key)
  await assertNothingLeft(t, world, 'before there is anything')
  const { id } = await own.make({ content: 'hello', fields: { expires_after: '3600' } })
  const { id: other } = await own.make({ content: 'x'.repeat(partBytes + 1) })
  await assertNothingLeft(t, world, 'of files as they are')
  const scene = { ...world, ref: own.ref, session: own.session, ids: [id, other] as const }
  const all = { ...wrongInStore(scene), ...(await wrongInRedis(scene)) }
  for (const [what, { seen, put, undo }] of Object.entries(all)) {
    await put()
    const left = await leftIn(world)
    await undo()
    const unseen = seen.filter((line) => !left.some((one) => line.test(one)))
    t.strictSame(unseen, [], what, { left })
    t.equal(left.length, seen.length, `${what}, and no more`, { left })
    t.strictSame(await leftIn(world), [], `${what}, gone`)
  }
}

t.test('on the disk: the check finds what is left', (t) => seesAll(t, {}))

t.test('on S3: the check finds what is left', async (t) => seesAll(t, { s3: await startS3(t) }))
