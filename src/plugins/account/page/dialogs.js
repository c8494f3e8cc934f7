// Dialogs: modal, closed by Escape, by their buttons and by a click beside them, and the focus goes back to where it was
// (the browser's own <dialog> does most of it). A dialog ends with its view.

import { announcer, focusOn, h, icon } from './dom.js'
import { problem } from './problems.js'
import { texts } from './texts.js'

/** @typedef {import('./dom.js').Child} Child */

/**
 * @typedef {object} Opened
 * @property {(...children: Child[]) => void} fill replaces what is under the title
 * @property {() => void} close
 * @property {() => void} keep from now on, a click beside it does not close it
 */

let last = 0

/**
 * @param {string} title
 * @returns {Opened}
 */
export function openDialog(title) {
  const id = `dialog-${++last}`
  const opener = document.activeElement
  let isKept = false
  const content = h('div', { class: 'dialog-content' })
  const close = () => dialog.close()
  const dialog = h(
    'dialog',
    { 'aria-labelledby': id },
    h(
      'header',
      {},
      h('h2', { id }, title),
      h(
        'button',
        { type: 'button', class: 'quiet', 'aria-label': texts.close, onclick: close },
        icon('close'),
      ),
    ),
    content,
    announcer(),
  )
  dialog.addEventListener('mousedown', (event) => {
    if (event.target === dialog && !isKept) close()
  })
  dialog.addEventListener('close', () => {
    dialog.remove()
    if (document.activeElement === document.body) focusOn(opener)
  })
  document.body.append(dialog)
  dialog.showModal()
  return {
    close,
    keep: () => void (isKept = true),
    fill: (...children) => {
      content.replaceChildren(...children.filter((child) => child instanceof Node))
      const field =
        content.querySelector('[autofocus]') ??
        content.querySelector('input, select, textarea, button')
      if (field instanceof HTMLElement) field.focus()
    },
  }
}

/** At once, with the secrets that may be in them. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll('dialog')) {
    dialog.close()
    dialog.remove()
  }
}

/**
 * A form in a dialog. `send` runs once at a time; what it throws is shown above the buttons.
 * @param {{ fields: Child[], action: string, isDangerous?: boolean, send: () => Promise<void>, cancel: () => void }} options
 * @returns {HTMLFormElement}
 */
export function dialogForm({ fields, action, isDangerous = false, send, cancel }) {
  const failure = h('div', { class: 'form-problem' })
  const submit = h('button', { class: isDangerous ? 'danger' : 'primary' }, action)
  const form = h(
    'form',
    {
      async onsubmit(/** @type {SubmitEvent} */ event) {
        event.preventDefault()
        if (submit.getAttribute('aria-disabled') === 'true') return
        submit.setAttribute('aria-disabled', 'true')
        failure.replaceChildren()
        try {
          await send()
        } catch (error) {
          failure.replaceChildren(problem(error))
        } finally {
          submit.removeAttribute('aria-disabled')
        }
      },
    },
    fields,
    failure,
    h('footer', {}, h('button', { type: 'button', onclick: cancel }, texts.cancel), submit),
  )
  return form
}

/**
 * A labelled field with a line of help.
 * @param {string} label
 * @param {HTMLElement} control
 * @param {string} [help]
 */
export function field(label, control, help) {
  const id = `field-${++last}`
  control.id = id
  if (help) control.setAttribute('aria-describedby', `${id}-help`)
  return h(
    'div',
    { class: 'field' },
    h('label', { for: id }, label),
    control,
    help && h('p', { id: `${id}-help`, class: 'help' }, help),
  )
}
