// The dialogs of keys: create, rename, rotate, revoke. The text of a new key is shown once and kept nowhere.

import { openDialog, dialogForm, field } from './dialogs.js'
import { h } from './dom.js'
import { choice } from './filters.js'
import { newKey } from './new-key.js'
import { modelsOf } from './playground-key.js'
import { texts } from './texts.js'

/**
 * @typedef {import('./shapes.js').Key} Key
 * @typedef {object} Doing
 * @property {<T>(path: string, call: import('./api.js').Call) => Promise<T>} send
 * @property {() => Promise<void>} done
 * @property {string | undefined} model one that the account may use
 */

const t = texts.keys
const day = 86_400

/** @param {Doing} doing */
export function createKey({ send, model, done }) {
  const dialog = openDialog(t.create)
  const name = h('input', {
    autofocus: true,
    maxlength: 200,
    autocomplete: 'off',
    placeholder: t.namePlaceholder,
  })
  const expires = choice(t.lifetimes, '0')
  const scopes = Object.entries(t.scopes).map(([scope, label]) => ({
    scope,
    label,
    box: h('input', { type: 'checkbox', checked: true }),
  }))
  const models = modelChoice()
  const tried = tries()
  const create = async () => {
    const chosen = scopes.filter(({ box }) => box.checked).map(({ scope }) => scope)
    const { body, once } = tried({
      name: name.value.trim(),
      ...(chosen.length < scopes.length && { scopes: chosen }),
      ...models.chosen(),
      days: Number(expires.value),
    })
    const key = /** @type {Key} */ (
      await send('keys', { body, headers: { 'idempotency-key': once } })
    )
    dialog.keep()
    dialog.fill(newKey(key, { model, close: dialog.close }))
    await done()
  }
  dialog.fill(
    dialogForm({
      fields: [
        field(t.name, name, t.nameHelp),
        field(t.expires, expires),
        h(
          'fieldset',
          {},
          h('legend', {}, t.may),
          scopes.map(({ label, box }) => h('label', { class: 'check' }, box, h('span', {}, label))),
        ),
        models.element,
      ],
      action: t.createAction,
      send: create,
      cancel: dialog.close,
    }),
  )
}

/**
 * A repeated try after a lost answer must not make a second key: the same wishes get the same body and Idempotency-Key.
 * @returns {(wishes: { days: number, name: string, scopes?: string[], models?: string[] }) => { body: object, once: string }}
 */
function tries() {
  let last = { wishes: '', body: {}, once: '' }
  return ({ days, ...fields }) => {
    const wishes = JSON.stringify([days, fields])
    if (wishes !== last.wishes) {
      const expires_at = days > 0 ? Math.floor(Date.now() / 1000) + days * day : null
      last = { wishes, body: { ...fields, expires_at }, once: crypto.randomUUID() }
    }
    return last
  }
}

/** All models, until one of the list is chosen. */
function modelChoice() {
  const list = h('div', { class: 'choices' })
  const element = h(
    'fieldset',
    { hidden: true },
    h('legend', {}, t.models),
    h('p', { class: 'help' }, t.modelsHelp),
    list,
  )
  /** @type {{ id: string, box: HTMLInputElement }[]} */
  let boxes = []
  const load = async () => {
    boxes = (await modelsOf()).map((id) => ({ id, box: h('input', { type: 'checkbox' }) }))
    list.replaceChildren(
      ...boxes.map(({ id, box }) => h('label', { class: 'check' }, box, h('span', {}, id))),
    )
    element.hidden = boxes.length < 2
  }
  // Without the list a key can still be made, for all models.
  load().catch(() => {})
  return {
    element,
    chosen() {
      const ids = boxes.filter(({ box }) => box.checked).map(({ id }) => id)
      return ids.length > 0 ? { models: ids } : {}
    },
  }
}

/**
 * @param {Key} key
 * @param {Doing} doing
 */
export function renameKey({ id, name }, { send, done }) {
  const dialog = openDialog(t.renameTitle)
  const input = h('input', { autofocus: true, maxlength: 200, autocomplete: 'off', value: name })
  dialog.fill(
    dialogForm({
      fields: [field(t.name, input)],
      action: t.rename,
      async send() {
        await send(`keys/${id}`, { method: 'PATCH', body: { name: input.value.trim() } })
        dialog.close()
        await done()
      },
      cancel: dialog.close,
    }),
  )
  input.select()
}

/**
 * @param {Key} key
 * @param {Doing} doing
 */
export function rotateKey(key, { send, model, done }) {
  const dialog = openDialog(t.rotateTitle(key.name || key.hint))
  const once = crypto.randomUUID()
  const grace = choice(t.graces, String(day))
  dialog.fill(
    dialogForm({
      fields: [h('p', {}, t.rotateHelp), field(t.grace, grace)],
      action: t.rotate,
      async send() {
        const body = { grace: Number(grace.value) }
        const made = /** @type {Key} */ (
          await send(`keys/${key.id}/rotate`, { body, headers: { 'idempotency-key': once } })
        )
        dialog.keep()
        dialog.fill(newKey(made, { model, close: dialog.close }))
        await done()
      },
      cancel: dialog.close,
    }),
  )
}

/**
 * The name has to be typed: a key that is revoked by a slip of the hand stops somebody's service.
 * @param {Key} key
 * @param {Doing} doing
 */
export function revokeKey(key, { send, done }) {
  const dialog = openDialog(t.revokeTitle(key.name || key.hint))
  const word = key.name.trim() || key.hint.slice(-4)
  const input = h('input', { autofocus: true, autocomplete: 'off', spellcheck: 'false' })
  const mismatch = h('p', { class: 'help bad', role: 'alert' })
  dialog.fill(
    dialogForm({
      fields: [h('p', {}, t.revokeHelp), field(t.typeName(word), input), mismatch],
      action: t.revokeAction,
      isDangerous: true,
      async send() {
        const isSame = input.value.trim().normalize() === word.normalize()
        mismatch.textContent = isSame ? '' : t.otherName
        if (!isSame) return input.focus()
        await send(`keys/${key.id}`, { method: 'DELETE' })
        dialog.close()
        await done()
      },
      cancel: dialog.close,
    }),
  )
}
