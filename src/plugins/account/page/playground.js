// A chat with a model, in a session of the account's own. The session's id stands in the address: a page that is loaded
// anew shows the same chat, and goes on reading an answer that is still being generated.

import { ApiError } from './api.js'
import { followAnswer } from './answer-stream.js'
import { composer } from './composer.js'
import { announce, h } from './dom.js'
import { withKey } from './playground-key.js'
import { problem } from './problems.js'
import { talkLog } from './talk-log.js'
import { texts } from './texts.js'

/**
 * @typedef {import('./shapes.js').Message} Message
 * @typedef {import('./shapes.js').Session} Session
 * @typedef {import('./main.js').Context} Context
 */

const t = texts.playground
const sessions = '/api/chat/sessions'
/** Of a longer chat, only this many of the newest messages are shown. */
const messagesShown = 100

/**
 * @param {Context} context
 * @param {string[]} rest
 */
export async function open(context, [id]) {
  const { signal, me } = context
  const models = me.models.map((model) => model.id)
  if (models.length === 0) return h('div', { class: 'panel empty' }, h('p', {}, t.noModels))
  const known = id ? await sessionOf(id, signal) : undefined
  const chat = new Chat(context, { models, session: known?.session })
  if (known) chat.show(known.messages)
  return chat.element
}

/**
 * @param {string} id
 * @param {AbortSignal} signal
 * @returns {Promise<{ session: Session, messages: Message[] } | undefined>} undefined for one that is gone
 */
async function sessionOf(id, signal) {
  try {
    const [session, messages] = await Promise.all([
      withKey(`${sessions}/${encodeURIComponent(id)}`, { signal }),
      withKey(`${sessions}/${encodeURIComponent(id)}/messages?order=desc&limit=${messagesShown}`, {
        signal,
      }),
    ])
    return { session: await session.json(), messages: (await messages.json()).data.toReversed() }
  } catch (error) {
    if (error instanceof ApiError && error.code === 'session_not_found') return undefined
    throw error
  }
}

class Chat {
  #context
  #log
  /** @type {string | undefined} */
  #session
  /** @type {Promise<string> | undefined} */
  #making
  /**
   * The id of the answer that is being generated.
   * @type {string | undefined}
   */
  #active
  /** A send whose answer was lost is sent again under the same key, so that it is not paid for twice. */
  #lost = { body: '', key: '' }
  #problems = h('div', {})
  #model
  #composer

  /**
   * @param {Context} context
   * @param {{ models: string[], session: Session | undefined }} options
   */
  constructor(context, { models, session }) {
    this.#context = context
    this.#session = session?.id
    this.#log = talkLog(context.me.currency)
    this.#model = h(
      'select',
      { id: 'model' },
      models.map((id) => h('option', { value: id, selected: id === session?.model }, id)),
    )
    this.#composer = composer({
      send: (draft) => this.#send(draft),
      stop: () => this.#stop(),
      upload: (file, stopped) => this.#upload(file, stopped),
    })
    const anew = () => {
      if (this.#session) location.hash = 'playground'
      else this.#composer.focus()
    }
    this.element = h(
      'div',
      { class: 'view talk' },
      h(
        'div',
        { class: 'talk-head' },
        h('label', { for: 'model' }, t.model),
        this.#model,
        h('button', { type: 'button', onclick: anew }, t.anew),
      ),
      this.#log.element,
      this.#problems,
      this.#composer.element,
    )
  }

  /** @param {readonly Message[]} messages */
  show(messages) {
    for (const message of messages) {
      if (message.role === 'user') this.#log.addQuestion(message.content)
      if (message.role !== 'assistant') continue
      const answer = this.#log.addAnswer({ model: message.model ?? '' })
      if (message.status === 'in_progress') void this.#follow({ id: message.id, answer })
      else void answer.end(message)
    }
  }

  /** @param {import('./composer.js').Draft} draft */
  async #send({ text, files }) {
    this.#problems.replaceChildren()
    const model = this.#model.value
    const content = files.length === 0 ? text : partsOf(text, files)
    const question = this.#log.addQuestion(content)
    const answer = this.#log.addAnswer({ model, sentAt: performance.now() })
    this.#log.follow()
    this.#composer.setBusy(true)
    try {
      const session = await this.#ensureSession(text)
      const response = await this.#ask(session, {
        content: withoutNames(content),
        model,
        stream: true,
      })
      void this.#follow({ id: response.headers.get('x-message-id') ?? '', answer, response })
      return true
    } catch (error) {
      this.#composer.setBusy(false)
      this.#log.remove(question, answer.element)
      this.#fail(error)
      return false
    }
  }

  /**
   * @param {string} session
   * @param {object} body
   */
  async #ask(session, body) {
    const json = JSON.stringify(body)
    if (this.#lost.body !== json) this.#lost = { body: json, key: crypto.randomUUID() }
    const response = await withKey(`${sessions}/${session}/messages`, {
      body,
      headers: { 'idempotency-key': this.#lost.key, accept: 'text/event-stream' },
      signal: this.#context.signal,
      isStream: true,
    })
    this.#lost = { body: '', key: '' }
    return response
  }

  /**
   * @param {{ id: string, answer: import('./messages.js').Answer, response?: Response }} begun
   */
  async #follow({ id, answer, response }) {
    const { signal } = this.#context
    const path = `${sessions}/${this.#session}/messages/${id}`
    this.#active = id
    this.#composer.setBusy(true)
    try {
      const { hear, setCut: cut } = answer
      await followAnswer(`${path}/stream`, { response, signal, hear, cut })
    } catch (error) {
      answer.setCut(false)
      this.#fail(error)
    } finally {
      this.#active = undefined
      this.#composer.setBusy(false)
    }
    if (!signal.aborted) await this.#finish(path, answer)
  }

  /**
   * The message says how the answer ended, and what it cost.
   * @param {string} path
   * @param {import('./messages.js').Answer} answer
   */
  async #finish(path, answer) {
    try {
      await answer.end(await (await withKey(path, { signal: this.#context.signal })).json())
      this.#problems.replaceChildren()
      announce(t.answered)
    } catch (error) {
      this.#fail(error, () => void this.#finish(path, answer))
    }
  }

  async #stop() {
    try {
      // While the model has said nothing, the page does not know the answer's id; the session does.
      const id = this.#active ?? (await this.#readActive())
      if (id)
        await withKey(`${sessions}/${this.#session}/messages/${id}/cancel`, { method: 'POST' })
    } catch (error) {
      this.#fail(error)
    }
  }

  /** @returns {Promise<string | null>} */
  async #readActive() {
    if (!this.#session) return null
    const session = await (await withKey(`${sessions}/${this.#session}`)).json()
    return session.active_message_id
  }

  /**
   * @param {File} file
   * @param {AbortSignal} stopped
   * @returns {Promise<import('./shapes.js').Stored>}
   */
  async #upload(file, stopped) {
    const session = await this.#ensureSession(file.name)
    const form = new FormData()
    // The session comes before the file, which is stored as it is read.
    form.append('session_id', session)
    form.append('file', file)
    const signal = AbortSignal.any([this.#context.signal, stopped])
    return await (await withKey('/api/files/upload', { body: form, signal })).json()
  }

  /** @param {string} title */
  async #ensureSession(title) {
    if (this.#session) return this.#session
    this.#making ??= this.#makeSession(title).finally(() => (this.#making = undefined))
    return await this.#making
  }

  /** @param {string} title */
  async #makeSession(title) {
    const body = {
      title: title.slice(0, 80).toWellFormed() || null,
      metadata: { made_by: 'playground' },
    }
    const session = await (await withKey(sessions, { body, signal: this.#context.signal })).json()
    this.#session = session.id
    history.replaceState(null, '', `#playground/${session.id}`)
    return session.id
  }

  /**
   * @param {unknown} error
   * @param {() => void} [retry]
   */
  #fail(error, retry) {
    if (this.#context.signal.aborted || this.#context.isOver(error)) return
    this.#problems.replaceChildren(problem(error, retry))
  }
}

/**
 * @param {string} text
 * @param {readonly import('./shapes.js').Stored[]} files
 */
function partsOf(text, files) {
  const attached = files.map(({ id, filename }) => ({
    type: 'file',
    file: { file_id: id, filename },
  }))
  return text === '' ? attached : [{ type: 'text', text }, ...attached]
}

/**
 * The name of a file is for the page; the API has it already.
 * @param {string | import('./shapes.js').Part[]} content
 */
function withoutNames(content) {
  if (typeof content === 'string') return content
  return content.map(({ file, ...part }) =>
    file ? { ...part, file: { file_id: file.file_id } } : part,
  )
}
