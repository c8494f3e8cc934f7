// What the page does with the client; browser.ts starts each act. The page's origin is not the gateway's.

import { Tollgate } from './tollgate.js'

const acts = {
  async stream(gate) {
    const session = await gate.sessions.create()
    const stream = await gate.messages.create(session.id, { content: 'Hi' })
    const text = await textOf(stream)
    const { status } = await stream.finalMessage()
    return { text, status, ids: [stream.messageId, stream.userMessageId, stream.requestId] }
  },

  async abort(gate) {
    const session = await gate.sessions.create()
    const left = new AbortController()
    const { signal } = left
    const content = 'without end'
    const stream = await gate.messages.create(session.id, { content }, { signal })
    let count = 0
    const error = await (async () => {
      for await (const _chunk of stream) if (++count === 3) left.abort()
    })().catch((reason) => reason.name)
    const { active_message_id: active } = await gate.sessions.retrieve(session.id)
    const again = await gate.messages.active(session.id)
    for await (const _chunk of again) break
    const { status } = await gate.messages.cancel(session.id, stream.messageId)
    return { count, error, isActive: active === stream.messageId, status }
  },

  async refusal(gate) {
    const { name, status, code, requestId } = await gate.sessions.retrieve('sess_0').catch((e) => e)
    return { name, status, code, requestId }
  },

  async upload(gate) {
    const session = await gate.sessions.create()
    const bytes = new Uint8Array(5_000_000).map((_, i) => i * 31)
    const progress = []
    const file = await gate.files.upload(new File([bytes], 'größe "1".bin'), {
      sessionId: session.id,
      onProgress: (sent, total) => progress.push([sent, total]),
    })
    const download = await gate.files.content(file.id)
    const head = 1_000_000
    const rest = await gate.files.content(file.id, { start: head, etag: download.etag })
    const whole = await download.bytes()
    return {
      progress,
      filename: download.filename,
      isSame: (await hashOf(whole)) === file.sha256,
      isRest: (await hashOf(await rest.bytes())) === (await hashOf(bytes.subarray(head))),
    }
  },

  async streamed(gate) {
    const session = await gate.sessions.create()
    const body = new Blob(['a stream of a page']).stream()
    const file = await gate.files.upload(body, { sessionId: session.id, filename: 'a.txt' })
    return { bytes: file.bytes, type: file.content_type }
  },

  async left(gate) {
    const session = await gate.sessions.create()
    const signal = AbortSignal.timeout(50)
    const file = new Blob([new Uint8Array(90_000_000)])
    const sending = gate.files.upload(file, { sessionId: session.id, filename: 'big', signal })
    return await sending.then(
      () => 'sent',
      (error) => error.name,
    )
  },
}

globalThis.act = async (name, options) => acts[name](new Tollgate(options))

async function textOf(stream) {
  let text = ''
  for await (const chunk of stream) text += chunk.text
  return text
}

async function hashOf(bytes) {
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
