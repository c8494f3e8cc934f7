// Uploads that are slow on purpose: two accounts can't keep a third one out, and a byte now and then does not keep a
// place. And a disk that is nearly full accepts no more files.

import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import t from 'tap'
import type { Test } from 'tap'
import { callerOf, filesYaml, startFiles, startUpload } from '../fixtures/files-http.ts'
import { codeOf } from '../fixtures/gateway.ts'
import { formOf, sendUpload } from '../fixtures/files-uploads.ts'
import type { SentUpload } from '../fixtures/files-uploads.ts'
import { until } from '../fixtures/until.ts'

/** Twenty places of 2 MiB each, with a folder as store. */
const places = 'uploads: 40MiB'

async function held(t: Test, world: Awaited<ReturnType<typeof startFiles>>, count: number) {
  const content = Buffer.alloc(200_000, 'x')
  const uploads: SentUpload[] = []
  for (const caller of [world.own, world.stranger]) {
    for (let i = 0; i < count; i++) {
      uploads.push(sendUpload(t, { url: world.url, caller, content, hold: 1000 }))
    }
  }
  let ended = 0
  for (const { end } of uploads) void end.then(() => ended++)
  // Half of them were refused; the others have their places.
  await until(() => ended >= uploads.length / 2)
  return uploads
}

t.test('two accounts with twenty slow uploads each: a third one uploads', async (t) => {
  const world = await startFiles(t, { yaml: `${filesYaml}limits: { ${places} }\n` })
  const { key } = await world.account(1000, { name: 'honest' })
  const honest = await callerOf(world, key)
  const slow = await held(t, world, 20)
  for (let i = 0; i < 10; i++) t.equal((await honest.upload({ content: 'x' })).status, 201)
  for (const upload of slow) upload.leave()
})

t.test('an upload below the minimum rate is given up, and leaves nothing', async (t) => {
  const limits = `limits: { ${places}, upload_idle: 1s, upload_rate: 10KiB }\n`
  const world = await startFiles(t, { yaml: filesYaml + limits })
  const { own, url, gateway } = world
  const upload = await startUpload(t, url, own)
  const body = formOf(own, Buffer.alloc(900_000, 'x'))
  let at = 0
  const trickle = setInterval(() => upload.write(body.subarray(at, ++at)), 50)
  t.teardown(() => clearInterval(trickle))
  const [answer] = (await once(upload, 'response')) as [IncomingMessage]
  t.equal(answer.statusCode, 408)
  t.ok(at > 0 && at < 200, `after ${at} bytes`)
  await until(async () => (await gateway.store.unfinished('files/')).length === 0)
  t.equal((await own.upload({ content: 'x' })).status, 201)
})

t.test('a disk with less free space than its reserve accepts no files, and says so', async (t) => {
  const probe = await startFiles(t)
  const path = `${probe.dataDir}/full`
  const yaml = `${filesYaml}store: { disk: { path: ${path}, reserve: 1000TiB } }\n`
  const { own, gateway } = await startFiles(t, { yaml })
  const refused = await own.upload({ content: 'x' })
  t.match([refused.status, await codeOf(refused)], [503, 'storage_unavailable'])
  t.strictSame(await gateway.store.list('files/'), [])
  await gateway.store.put('journal/x', Buffer.from('kept for others'))
})
