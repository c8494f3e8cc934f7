// Where a question is written: its text, its files, and one button that sends, or stops the answer.

import { announce, h, icon } from './dom.js'
import { bytes } from './format.js'
import { wordsFor } from './problems.js'
import { texts } from './texts.js'

/**
 * @typedef {import('./shapes.js').Stored} Stored
 * @typedef {{ text: string, files: Stored[] }} Draft
 *
 * @typedef {object} Wired
 * @property {(draft: Draft) => Promise<boolean>} send resolves with whether the gateway took it; the draft is given back
 *   if not
 * @property {() => Promise<void>} stop
 * @property {(file: File, stopped: AbortSignal) => Promise<Stored>} upload
 */

const t = texts.playground

/** @param {Wired} wired */
export function composer({ send, stop, upload }) {
  const attached = attachments(upload)
  const input = h('textarea', {
    rows: 3,
    'aria-label': t.message,
    placeholder: t.placeholder,
    onkeydown(/** @type {KeyboardEvent} */ event) {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
      event.preventDefault()
      form.requestSubmit()
    },
  })
  const button = h('button', { class: 'primary' }, t.send)
  let isBusy = false
  let isSending = false
  const setBusy = (/** @type {boolean} */ value) => {
    isBusy = value
    button.textContent = value ? t.stop : t.send
  }
  const submit = async () => {
    if (isBusy) return await stop()
    const text = input.value.trim()
    const files = attached.files()
    if (isSending || attached.isUploading() || (text === '' && files.length === 0)) return
    isSending = true
    input.value = ''
    const giveBack = attached.take()
    try {
      if (await send({ text, files })) return
      giveBack()
      // The text comes back; what was written meanwhile comes after it.
      input.value = [text, input.value].filter(Boolean).join('\n')
    } finally {
      isSending = false
    }
  }
  const form = h(
    'form',
    {
      class: 'composer',
      onsubmit(/** @type {SubmitEvent} */ event) {
        event.preventDefault()
        void submit()
      },
    },
    attached.list,
    input,
    h(
      'div',
      { class: 'composer-foot' },
      attached.button,
      h('span', { class: 'help' }, t.keys),
      button,
    ),
  )
  return { element: form, setBusy, focus: () => input.focus() }
}

/** @param {Wired['upload']} upload */
function attachments(upload) {
  const list = h('ul', { class: 'chips', 'aria-label': t.files })
  /** @type {Set<{ stored?: Stored, stop: AbortController, hasFailed?: boolean }>} */
  const chosen = new Set()
  const picker = h('input', {
    type: 'file',
    multiple: true,
    class: 'unseen',
    tabindex: '-1',
    'aria-hidden': 'true',
    onchange() {
      for (const file of picker.files ?? []) void add(file)
      // The same file can be chosen again.
      picker.value = ''
    },
  })
  /** @param {File} file */
  const add = async (file) => {
    const stop = new AbortController()
    /** @type {{ stored?: Stored, stop: AbortController, hasFailed?: boolean }} */
    const one = { stop }
    const state = h('small', { role: 'status' }, t.uploading)
    const remove = () => {
      stop.abort()
      chosen.delete(one)
      chip.remove()
      button.focus()
    }
    const chip = h(
      'li',
      { class: 'chip' },
      h('span', { class: 'clip', title: file.name }, file.name),
      state,
      h(
        'button',
        { type: 'button', class: 'quiet', 'aria-label': t.remove(file.name), onclick: remove },
        icon('close'),
      ),
    )
    chosen.add(one)
    list.append(chip)
    try {
      one.stored = await upload(file, stop.signal)
      state.textContent = bytes(one.stored.bytes)
      announce(t.uploaded(file.name))
    } catch (error) {
      one.hasFailed = true
      chip.classList.add('bad')
      state.textContent = wordsFor(error)
    }
  }
  const button = h(
    'button',
    { type: 'button', class: 'quiet', onclick: () => picker.click() },
    icon('attach'),
    t.attach,
  )
  return {
    list,
    button: h('span', {}, picker, button),
    isUploading: () => [...chosen].some(({ stored, hasFailed }) => !stored && !hasFailed),
    files: () => [...chosen].flatMap(({ stored }) => stored ?? []),
    /** Empties the list. Returns what fills it again. */
    take() {
      const [taken, chips] = [[...chosen], [...list.childNodes]]
      chosen.clear()
      list.replaceChildren()
      return () => {
        for (const one of taken) chosen.add(one)
        list.prepend(...chips)
      }
    },
  }
}
