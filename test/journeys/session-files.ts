// Files in a conversation, as people use them: uploaded, discussed for many turns, deleted, too many for one request,
// shown to a model that takes no images.

import t from 'tap'
import { inlineBytes } from '../../src/files/file-reference.ts'
import { keys } from '../../src/redis/keys.ts'
import { chat as model } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { balanceOf, differencesOf } from '../fixtures/money.ts'
import { messageIdOf, refusal } from '../fixtures/session-chat.ts'
import {
  answered,
  dataUrl,
  filePart,
  gotMessages,
  gotParts,
  imagePart,
  pngOf,
  startFileChat,
} from '../fixtures/session-files.ts'
import type { FileChat } from '../fixtures/session-files.ts'
import { until } from '../fixtures/until.ts'

const say = async (chat: FileChat, content: unknown, more: object = {}) =>
  answered(await chat.send(chat.sessionId, { content, ...more }))

/** Images by their URL, texts as they are. */
const seen = (chat: FileChat, index: number) =>
  gotParts(chat, index).map(({ text, image_url }) => text ?? image_url?.url)

const gif = Buffer.from('R0lGODlhAQABAAAAACw=', 'base64')

t.test('a file is uploaded, talked about, and no longer known when it was deleted', async (t) => {
  const chat = await startFileChat(t)
  const notes = await chat.own.make({ name: 'notes.txt', content: 'remember the milk' })
  const picture = await chat.own.make({ name: 'cow.gif', content: gif })
  await say(chat, [{ type: 'text', text: 'What?' }, filePart(notes), filePart(picture)])
  await say(chat, 'And again?')
  const both = ['What?', '[file: notes.txt]\nremember the milk', dataUrl(gif, 'image/gif')]
  t.strictSame(seen(chat, 0), both)
  t.strictSame(seen(chat, 1), both)
  t.equal((await chat.own.call(`DELETE /${notes.id}`)).status, 204)
  t.equal((await chat.own.call(`DELETE /${picture.id}`)).status, 204)
  await say(chat, 'Still there?')
  t.strictSame(seen(chat, 2), ['What?', '[file: notes.txt]', '[image]'])
  const named = await chat.send(chat.sessionId, { content: [filePart(notes)] })
  t.strictSame(await refusal(named), [404, 'file_not_found'])
  t.strictSame(await differencesOf(chat.gateway), [])
})

t.test('an image of a message can be opened as a file, and goes with its session', async (t) => {
  const chat = await startFileChat(t)
  await say(chat, [imagePart(dataUrl(pngOf(500)))])
  const [id = ''] = await chat.ids()
  const opened = await chat.own.call(`GET /${id}?disposition=inline`)
  t.equal(opened.headers.get('content-type'), 'image/png')
  t.match(opened.headers.get('content-disposition'), /^inline; filename="image-1.png"/)
  t.ok(pngOf(500).equals(Buffer.from(await opened.arrayBuffer())))
  const { session_id, purpose } = (await (await chat.own.call(`GET /${id}/metadata`)).json()) as {
    session_id: string
    purpose: string
  }
  t.strictSame([session_id, purpose], [chat.sessionId, 'vision'])
  t.equal((await chat.at(`/${chat.sessionId}`, { method: 'DELETE' })).status, 204)
  t.equal((await chat.own.call(`GET /${id}`)).status, 404)
  await until(async () => (await chat.gateway.gateway.store.list('files/')).length === 0)
})

t.test('a send that is repeated with one key keeps one file, and answers the same', async (t) => {
  const gate = new Gate()
  const chat = await startFileChat(t, { script: model({ gate }) })
  const headers = { 'Idempotency-Key': 'one' }
  const body = { content: [imagePart(dataUrl(pngOf(500)))] }
  gate.next(2)
  const first = await chat.send(chat.sessionId, body, { headers })
  const second = await chat.send(chat.sessionId, body, { headers })
  gate.open()
  await answered(first)
  await answered(second)
  const third = await answered(await chat.send(chat.sessionId, body, { headers }))
  t.equal(messageIdOf(second), messageIdOf(first))
  t.equal(messageIdOf(third), messageIdOf(first))
  t.equal((await chat.ids()).length, 1)
  t.equal(chat.backend.requests.length, 1)
})

t.test('any gateway reads files that another one has kept', async (t) => {
  const chat = await startFileChat(t, { yaml: `store: { disk: { path: ${t.testdir()} } }` })
  await say(chat, [imagePart(dataUrl(pngOf(500)))])
  const other = await chat.another()
  await answered(await chat.send(chat.sessionId, 'And now?', {}, other))
  t.strictSame(seen(chat, 1), [dataUrl(pngOf(500))])
})

t.test('images of many turns: only the newest go to the backend', async (t) => {
  const limits = 'limits: { json_message: 1MiB, json_api: 512KiB }'
  const chat = await startFileChat(t, {
    yaml: limits,
    model: 'accepts: [text, image], context_window: 1000000',
  })
  const bytes = 200_000
  const urls: string[] = []
  for (let i = 0; i < 7; i++) {
    const url = dataUrl(pngOf(bytes, i))
    urls.push(url)
    await say(chat, [imagePart(url)])
  }
  const room = Math.floor((1024 * 1024) / inlineBytes({ kind: 'image', bytes }))
  t.equal(room, 3)
  const words = Array.from({ length: urls.length - room }, () => '[image]')
  t.strictSame(seen(chat, 6), [...words, ...urls.slice(-room)])
  await say(chat, 'Which was the first?')
  t.strictSame(seen(chat, 7), [...words, ...urls.slice(-room)])
  t.ok((chat.backend.requests[7]?.body.length ?? 0) < 1024 * 1024)

  const ids = await chat.ids()
  const tooMany = ids.slice(0, room + 1).map((id) => filePart({ id }))
  const refused = await chat.send(chat.sessionId, { content: tooMany })
  t.strictSame(await refusal(refused), [413, 'body_too_large'])
  await say(chat, tooMany.slice(1))
  const shown = seen(chat, 8)
  t.strictSame(shown.slice(-room), urls.slice(1, room + 1), 'what is said now comes first')
  t.notOk(shown.slice(0, -room).some((one) => one !== '[image]'))
})

t.test('a model without images is told where they were, and gets no new ones', async (t) => {
  const chat = await startFileChat(t)
  await say(chat, [{ type: 'text', text: 'Look' }, imagePart(dataUrl(pngOf(500)))])
  await say(chat, 'What do you see?', { model: 'other' })
  t.strictSame(seen(chat, 1), ['Look', '[image]'])
  const [id = ''] = await chat.ids()
  for (const part of [filePart({ id }), imagePart(dataUrl(pngOf(500)))]) {
    const sent = await chat.send(chat.sessionId, { content: [part], model: 'other' })
    t.strictSame(await refusal(sent), [400, 'unsupported_attachment'])
  }
  t.equal((await chat.ids()).length, 1)
  await say(chat, 'And you?')
  t.strictSame(seen(chat, 2), ['Look', dataUrl(pngOf(500))])
})

t.test('the hold for a file is by its size, the charge by its content', async (t) => {
  const gate = new Gate()
  const chat = await startFileChat(t, {
    script: model({ gate, chunks: 3, usage: 'never' }),
    model: 'accepts: [text], context_window: 1000000, price: { input: 1, output: 1 }',
  })
  const text = 'seven little words are in this line. '.repeat(1000)
  const notes = await chat.keep(text)
  gate.next(2)
  const live = await chat.send(chat.sessionId, { content: [filePart(notes)], max_tokens: 50 })
  const { reserved } = await balanceOf(chat.gateway, chat.account)
  t.ok(reserved > text.length / 2.5 && reserved < text.length / 2, `${reserved} held`)
  gate.open()
  await answered(live)
  await until(async () => (await balanceOf(chat.gateway, chat.account)).reserved === 0)
  const { usage } = await chat.message(chat.sessionId, messageIdOf(live))
  const { prompt_tokens } = usage as { prompt_tokens: number }
  t.ok(prompt_tokens > 7000 && prompt_tokens < 10_000, `${prompt_tokens} counted`)
})

t.test('an image inside an old row is still shown and sent', async (t) => {
  const chat = await startFileChat(t)
  const first = await say(chat, 'Hi')
  const redis = chat.gateway.gateway.redis.client
  const rows = keys.messages(chat.ref, chat.sessionId)
  const id = String(first.headers['x-user-message-id'])
  const row = JSON.parse((await redis.hget(rows, id)) ?? '') as object
  const content = [{ type: 'text', text: 'Look' }, imagePart('data:image/png;base64,AAAA')]
  await redis.hset(rows, id, JSON.stringify({ ...row, content }))
  t.strictSame((await chat.message(chat.sessionId, id)).content, content)
  await say(chat, 'Again?')
  t.strictSame(gotMessages(chat, 1)[0]?.content, content)
})
