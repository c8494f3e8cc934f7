import { hash } from 'node:crypto'
import { rename, rm, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { newId } from '../../../src/ids.ts'
import { keys } from '../../../src/redis/keys.ts'
import { chat as model } from '../../fixtures/backend-model.ts'
import { failing } from '../../fixtures/backend-scripts.ts'
import { Gate } from '../../fixtures/gate.ts'
import { balanceOf, differencesOf } from '../../fixtures/money.ts'
import { refusal } from '../../fixtures/session-chat.ts'
import {
  answered,
  dataUrl,
  filePart,
  gotParts,
  imagePart,
  keepFile,
  pngOf,
  slowly,
  startFileChat,
} from '../../fixtures/session-files.ts'
import type { FileChat } from '../../fixtures/session-files.ts'
import { until } from '../../fixtures/until.ts'

/** The refused message has left nothing, the backend got no request, and the session goes on. */
async function leftNothing(t: Test, chat: FileChat, asked = 0): Promise<void> {
  t.equal(chat.backend.requests.length, asked, 'the backend was not asked')
  t.match(await balanceOf(chat.gateway, chat.account), { reserved: 0 })
  t.strictSame(await differencesOf(chat.gateway), [])
  const { active_message_id } = await chat.read(`/${chat.sessionId}`)
  t.equal(active_message_id, null, 'the session is free')
}

async function refused(chat: FileChat, content: unknown, asked: object = {}) {
  return await refusal(await chat.send(chat.sessionId, { content, stream: false }, asked))
}

t.test('each kind of file reaches the backend in the form that backends accept', async (t) => {
  const chat = await startFileChat(t)
  const png = pngOf(3000, 7)
  const [text, image, mp3, wav, pdf] = [
    await chat.keep('\ufeffHi €', { filename: 'a.txt' }),
    await chat.keep(png, { filename: 'b.png', contentType: 'image/png' }),
    await chat.keep('sound', { filename: 'c.mp3', contentType: 'audio/mpeg' }),
    await chat.keep('sound', { filename: 'd.wav', contentType: 'audio/x-wav' }),
    await chat.keep('%PDF', { filename: '报告.pdf', contentType: 'application/pdf' }),
  ]
  const said = { type: 'text', text: 'See:' }
  const files = [text, image, mp3, wav, pdf]
  await answered(
    await chat.send(chat.sessionId, { content: [said, ...files.map(filePart)], stream: false }),
  )
  const sound = Buffer.from('sound').toString('base64')
  t.strictSame(gotParts(chat, 0), [
    said,
    { type: 'text', text: '[file: a.txt]\nHi €' },
    { type: 'image_url', image_url: { url: dataUrl(png) } },
    { type: 'input_audio', input_audio: { data: sound, format: 'mp3' } },
    { type: 'input_audio', input_audio: { data: sound, format: 'wav' } },
    {
      type: 'file',
      file: { filename: '报告.pdf', file_data: dataUrl(Buffer.from('%PDF'), 'application/pdf') },
    },
  ])
  const [user] = await chat.messages(chat.sessionId)
  t.strictSame(user?.content, [
    said,
    ...files.map(({ id, filename }) => ({ type: 'file', file: { file_id: id, filename } })),
  ])
  await leftNothing(t, chat, 1)
})

t.test('files that are missing, foreign or unusable are refused by their path', async (t) => {
  const chat = await startFileChat(t, { model: 'accepts: [text, image]' })
  const other = await chat.session()
  const stranger = await chat.gateway.account(1_000_000)
  const theirRef = stranger.key.slice('tg_live_'.length, 'tg_live_'.length + 12)
  const theirs = newId('sess')
  await chat.gateway.gateway.redis.client.hset(keys.session(theirRef, theirs), 'id', theirs)
  const mine = await chat.keep('mine')
  const cases: readonly (readonly [string, number, string])[] = [
    [newId('file'), 404, 'file_not_found'],
    ['nonsense', 404, 'file_not_found'],
    [(await chat.keep('x', { session: other })).id, 404, 'file_not_found'],
    [
      (await keepFile(chat.shelf, Buffer.from('x'), { ref: theirRef, session: theirs })).id,
      404,
      'file_not_found',
    ],
    [(await chat.keep('x', { expiresAt: 1 })).id, 410, 'file_expired'],
    [(await chat.keep('x', { contentType: 'audio/wav' })).id, 400, 'unsupported_attachment'],
  ]
  for (const [id, status, code] of cases) {
    const content = [filePart(mine), filePart({ id })]
    const live = await chat.send(chat.sessionId, { messages: [{ role: 'user', content }] })
    const { error } = await live.json()
    t.equal(live.status, status, id)
    t.match(error, { code, param: 'messages[0].content[1].file.file_id' })
  }
  t.strictSame(await chat.messages(chat.sessionId), [])
  const many = Array.from({ length: 11 }, () => filePart(mine))
  t.strictSame(await refused(chat, many), [400, 'invalid_parameter'])
  const elsewhere = await chat.send(newId('sess'), { content: [filePart({ id: newId('file') })] })
  t.strictSame(await refusal(elsewhere), [404, 'session_not_found'])
  await leftNothing(t, chat)
})

t.test('an image within a message becomes a file of its session', async (t) => {
  const chat = await startFileChat(t)
  // More than a message may have without a store, and than a row should have.
  const png = pngOf(2 * 1024 * 1024, 3)
  const gif = Buffer.from('R0lGODlhAQABAAAAACw=', 'base64')
  const parts = [imagePart(dataUrl(png)), imagePart(dataUrl(gif, 'image/jpeg'))]
  await answered(await chat.send(chat.sessionId, { content: parts }))
  t.strictSame(gotParts(chat, 0), [parts[0], imagePart(dataUrl(gif, 'image/gif'))])
  const ids = await chat.ids()
  t.equal(ids.length, 2)
  const [user] = await chat.messages(chat.sessionId)
  const shown = ['image-1.png', 'image-2.gif'].map((filename, i) => ({
    type: 'file',
    file: { file_id: ids[i], filename },
  }))
  t.strictSame(user?.content, shown)
  const sha256 = hash('sha256', png)
  const row = await chat.shelf.book.read(chat.ref, ids[0] ?? '')
  t.match(row, { sha256, bytes: png.length, contentType: 'image/png', session: chat.sessionId })
  t.ok(png.equals(await chat.shelf.load(chat.ref, ids[0] ?? '')))
  const redis = chat.gateway.gateway.redis.client
  t.ok(Number(await redis.hget(keys.session(chat.ref, chat.sessionId), 'bytes')) < 2000)

  await answered(await chat.send(chat.sessionId, { content: shown, stream: false }))
  t.strictSame(gotParts(chat, 1), [...gotParts(chat, 0), ...gotParts(chat, 0)], 'sent back whole')
  t.strictSame(await chat.ids(), ids, 'no other file')
})

t.test('content that only claims to be an image is not stored', async (t) => {
  const chat = await startFileChat(t)
  const html = [imagePart(dataUrl(Buffer.from('<html><script>alert(1)</script>')))]
  t.strictSame(await refused(chat, html), [400, 'invalid_parameter'])
  t.strictSame(await chat.ids(), [])
  await leftNothing(t, chat)
})

t.test('without money, in a busy session, or in none, nothing is stored', async (t) => {
  const chat = await startFileChat(t, { tokens: 100 })
  const content = [imagePart(dataUrl(pngOf(100)))]
  t.strictSame(await refused(chat, content), [402, 'insufficient_balance'])
  const nobody = { key: `${chat.key.slice(0, -7)}AAAAAAA` }
  t.strictSame(await refused(chat, content, nobody), [401, 'invalid_api_key'])
  t.strictSame(await chat.shelf.book.list(chat.ref, { limit: 9, order: 'asc' }).then(count), 0)
  await leftNothing(t, chat)
})

const count = ({ data }: { readonly data: readonly unknown[] }) => data.length

t.test('a store is away: 503, no message, no charge, and the session goes on', async (t) => {
  const chat = await startFileChat(t)
  const file = await chat.keep('text')
  const path = join(chat.storePath, 'files', chat.ref, file.id)
  await rename(path, `${path}_`)
  await symlink(path, path)
  t.strictSame(await refused(chat, [filePart(file)]), [503, 'storage_unavailable'])
  await leftNothing(t, chat)
  await rm(path)
  await rename(`${path}_`, path)
  await answered(await chat.send(chat.sessionId, { content: [filePart(file)], stream: false }))

  await rename(chat.storePath, `${chat.storePath}_`)
  await writeFile(chat.storePath, '')
  const image = [imagePart(dataUrl(pngOf(100)))]
  t.strictSame(await refused(chat, image), [503, 'storage_unavailable'])
  t.strictSame(await chat.ids(), [file.id])
  await leftNothing(t, chat, 1)
  t.equal((await chat.messages(chat.sessionId)).length, 2)
  await rm(chat.storePath)
  await rename(`${chat.storePath}_`, chat.storePath)
  await answered(await chat.send(chat.sessionId, { content: image, stream: false }))
  t.equal(gotParts(chat, 1).length, 2)
})

t.test('an image beyond the quota: 403, and the other parts are not kept either', async (t) => {
  const chat = await startFileChat(t)
  const redis = chat.gateway.gateway.redis.client
  const most = 10 * 2 ** 30
  await redis.hset(keys.storage(chat.ref), 'used', most - 140_000)
  const images = [pngOf(60_000), pngOf(60_000, 1)].map((png) => imagePart(dataUrl(png)))
  t.strictSame(await refused(chat, images), [403, 'storage_quota_exceeded'])
  t.strictSame(await chat.ids(), [])
  t.strictSame(await chat.messages(chat.sessionId), [])
  t.equal(await redis.hget(keys.storage(chat.ref), 'used'), String(most - 140_000))
  await leftNothing(t, chat)
  await answered(await chat.send(chat.sessionId, { content: images.slice(1) }))
  t.equal((await chat.ids()).length, 1)
})

t.test('a refusal by the backend removes the image too, a later failure does not', async (t) => {
  const chat = await startFileChat(t)
  const content = [imagePart(dataUrl(pngOf(100)))]
  chat.backend.once(failing(400))
  t.equal((await chat.send(chat.sessionId, { content })).status, 400)
  chat.backend.once(failing(500))
  t.equal((await chat.send(chat.sessionId, { content })).status, 502)
  t.strictSame([await chat.ids(), await chat.messages(chat.sessionId)], [[], []])
  await leftNothing(t, chat, 2)
  chat.backend.once(model({ chunks: 2, cut: true }))
  await (await chat.send(chat.sessionId, { content })).end()
  t.equal((await chat.ids()).length, 1)
  const [user, answer] = await chat.messages(chat.sessionId)
  t.match(user?.content, [{ type: 'file' }])
  t.match(answer, { status: 'incomplete' })
})

t.test('files read for a request count in the memory for bodies', async (t) => {
  const gate = new Gate()
  const limits = 'limits: { bodies: 3MiB, json_message: 768KiB, json_v1: 768KiB, json_api: 512KiB }'
  const chat = await startFileChat(t, { yaml: limits, script: model({ gate }) })
  const file = await chat.keep(pngOf(500_000), { contentType: 'image/png' })
  const other = await chat.session()
  const sending = chat.send(other, { content: [imagePart(dataUrl(pngOf(500_000)))] })
  await chat.backend.request(0)
  t.strictSame(await refused(chat, [filePart(file)]), [503, 'overloaded'])
  t.strictSame(await chat.messages(chat.sessionId), [])
  gate.open()
  await (await sending).end()
  await leftNothing(t, chat, 1)
  await answered(await chat.send(chat.sessionId, { content: [filePart(file)] }))
})

const isBusy = async (chat: FileChat) =>
  (await chat.read(`/${chat.sessionId}`))['active_message_id'] !== null

t.test('a store that hangs is waited for no longer than a first byte', async (t) => {
  const chat = await startFileChat(t, { yaml: 'limits: { first_byte: 1s }' })
  const { file, asked } = await slowly(chat, 'slow')
  const sending = refused(chat, [filePart(file)])
  const arrive = await asked()
  t.strictSame(await sending, [503, 'storage_unavailable'])
  await leftNothing(t, chat)
  await arrive()
  t.strictSame(await chat.messages(chat.sessionId), [])
})

t.test('cancelled or left while its files are read: it ends like any other', async (t) => {
  const gate = new Gate()
  const chat = await startFileChat(t, { script: model({ gate }) })
  const { file, asked } = await slowly(chat, 'slow')
  const sending = chat.send(chat.sessionId, { content: [filePart(file)] })
  const arrive = await asked()
  const id = String((await chat.read(`/${chat.sessionId}`))['active_message_id'])
  const cancelling = chat.at(`/${chat.sessionId}/messages/${id}/cancel`, { method: 'POST' })
  await arrive()
  t.match(await (await cancelling).json(), { id, status: 'cancelled' })
  t.equal((await sending).status, 200)
  t.equal(await isBusy(chat), false)

  const client = new AbortController()
  const body = { content: [filePart(file)], on_disconnect: 'cancel' }
  const path = `/api/chat/sessions/${chat.sessionId}/messages`
  const leaving = chat.gateway.call(path, chat.key, body, client.signal).catch(() => undefined)
  const arriveLate = await asked()
  client.abort()
  await leaving
  await arriveLate()
  await until(async () => !(await isBusy(chat)))
  t.match(await balanceOf(chat.gateway, chat.account), { reserved: 0 })
  t.strictSame(await differencesOf(chat.gateway), [])
})

t.test('a session that is deleted while its files are read leaves nothing', async (t) => {
  const chat = await startFileChat(t)
  const { file, asked } = await slowly(chat, 'slow')
  const content = [filePart(file), imagePart(dataUrl(pngOf(100)))]
  const sending = chat.send(chat.sessionId, { content })
  const arrive = await asked()
  t.equal((await chat.at(`/${chat.sessionId}`, { method: 'DELETE' })).status, 204)
  await arrive()
  t.strictSame(await refusal(await sending), [404, 'session_not_found'])
  const { store } = chat.gateway.gateway
  await until(async () => (await store.list('')).length === 0)
  t.equal(chat.backend.requests.length, 0)
  t.match(await balanceOf(chat.gateway, chat.account), { reserved: 0 })
})

t.test('the files of a session go soon, even if its removal fails after the session', async (t) => {
  const chat = await startFileChat(t)
  await chat.keep('Hi')
  const away = () => Promise.reject(new GatewayError('ledger_unavailable'))
  t.intercept(chat.shelf.book, 'removeSession', { value: away })
  t.equal((await chat.at(`/${chat.sessionId}`, { method: 'DELETE' })).status, 204)
  const redis = chat.gateway.gateway.redis.client
  const due = await redis.zscore(keys.due(chat.ref), `session ${chat.sessionId}`)
  t.ok(Number(due) - Date.now() < 120_000, due ?? 'never')
})
