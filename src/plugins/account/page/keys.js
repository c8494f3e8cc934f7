// The keys of the account: a table, and for each key what can be done with it.

import { account, allOf } from './api.js'
import { announce, h, redraw } from './dom.js'
import { ago, dateOf, momentOf, number } from './format.js'
import { createKey, renameKey, revokeKey, rotateKey } from './key-dialogs.js'
import { problem } from './problems.js'
import { texts } from './texts.js'

/** @typedef {import('./shapes.js').Key} Key */

const t = texts.keys

/** @param {import('./main.js').Context} context */
export async function open({ me, signal, isOver }) {
  const table = h('div', {})
  let showsAll = false
  /** @type {Key[]} */
  let keys = []
  const show = () => {
    const active = keys.filter(({ status }) => status === 'active')
    const others = keys.length - active.length
    const content = [
      keys.length === 0 ? nothingYet() : tableOf(showsAll ? keys : active, actions),
      others > 0 &&
        h(
          'button',
          {
            type: 'button',
            class: 'quiet',
            'aria-expanded': String(showsAll),
            'data-control': 'old keys',
            onclick: toggle,
          },
          showsAll ? t.hideOld : t.showOld(others),
        ),
    ]
    redraw(table, content, create)
  }
  const toggle = () => {
    showsAll = !showsAll
    show()
    table.querySelector('[aria-expanded]')?.scrollIntoView({ block: 'nearest' })
  }
  const load = async () => {
    keys = await allOf('keys', { signal })
    show()
  }
  /** @param {string} [said] */
  const changed = async (said) => {
    if (said) announce(said)
    try {
      await load()
    } catch (error) {
      if (!signal.aborted && !isOver(error))
        table.replaceChildren(problem(error, () => void changed()))
    }
  }
  const actions = actionsOf({ changed, isOver, model: me.models[0]?.id })
  const create = h(
    'button',
    { type: 'button', class: 'primary', 'data-control': 'create', onclick: actions.create },
    t.create,
  )
  await load()
  return h(
    'div',
    { class: 'view' },
    h('p', { class: 'lead' }, t.lead, create),
    h('section', { class: 'panel' }, table),
  )
}

/**
 * @typedef {ReturnType<typeof actionsOf>} Actions
 * @param {{ changed: (said?: string) => Promise<void>, isOver: (error: unknown) => boolean, model: string | undefined }} options `model`: for the lines that use a new key
 */
function actionsOf({ changed, isOver, model }) {
  /**
   * @template T
   * @param {string} path
   * @param {import('./api.js').Call} call
   * @returns {Promise<T>}
   */
  const send = async (path, call) => {
    try {
      return await account(path, call)
    } catch (error) {
      isOver(error)
      throw error
    }
  }
  return {
    create: () => createKey({ send, model, done: () => changed(t.created) }),
    /** @param {Key} key */
    rename: (key) => renameKey(key, { send, model, done: () => changed(t.renamed) }),
    /** @param {Key} key */
    rotate: (key) => rotateKey(key, { send, model, done: () => changed(t.rotated) }),
    /** @param {Key} key */
    revoke: (key) => revokeKey(key, { send, model, done: () => changed(t.revoked) }),
  }
}

function nothingYet() {
  return h('div', { class: 'empty' }, h('h2', {}, t.none), h('p', {}, t.noneHelp))
}

/**
 * @param {readonly Key[]} keys
 * @param {Actions} actions
 */
function tableOf(keys, actions) {
  if (keys.length === 0) return h('div', { class: 'empty' }, h('p', {}, t.noneActive))
  const heads = [t.name, t.may, t.createdAt, t.lastUsed, t.expires]
  return h(
    'table',
    { class: 'cards-on-phone' },
    h('caption', { class: 'unseen' }, texts.views.keys),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        heads.map((name) => h('th', { scope: 'col' }, name)),
        h('th', { scope: 'col' }, h('span', { class: 'unseen' }, t.actions)),
      ),
    ),
    h(
      'tbody',
      {},
      keys.map((key) => rowOf(key, actions)),
    ),
  )
}

/**
 * @param {Key} key
 * @param {Actions} actions
 */
function rowOf(key, { rename, rotate, revoke }) {
  const isActive = key.status === 'active'
  const name = key.name || t.unnamed
  /** @param {string} text @param {(key: Key) => void} act */
  const button = (text, act) =>
    h(
      'button',
      {
        type: 'button',
        class: 'small',
        'aria-label': `${text}: ${name}`,
        'data-control': `${text} ${key.id}`,
        onclick: () => act(key),
      },
      text,
    )
  return h(
    'tr',
    { class: isActive ? '' : 'past' },
    h(
      'th',
      { scope: 'row' },
      h('span', { class: 'clip', title: name }, name),
      !isActive && h('span', { class: 'badge' }, t.status[key.status]),
      h('code', {}, key.hint),
    ),
    cell(
      t.may,
      scopesOf(key),
      h('small', {}, key.models.includes('*') ? t.allModels : key.models.join(', ')),
      key.budget && h('small', {}, budgetOf(key.budget)),
    ),
    cell(t.createdAt, dateOf(key.created_at)),
    cell(
      t.lastUsed,
      key.last_used_at === null
        ? t.never
        : h('span', { title: momentOf(key.last_used_at) }, ago(key.last_used_at)),
    ),
    cell(t.expires, expiryOf(key)),
    h(
      'td',
      { class: 'actions' },
      isActive && [button(t.rename, rename), button(t.rotate, rotate), button(t.revoke, revoke)],
    ),
  )
}

/** @param {import('./shapes.js').Budget} budget */
function budgetOf({ used, tokens, every }) {
  return t.budget(number(used), number(tokens), every)
}

/**
 * @param {string} label on a phone, where the heads of the columns are not shown
 * @param {...import('./dom.js').Child} content
 */
function cell(label, ...content) {
  return h('td', { 'data-label': label }, h('div', {}, content))
}

/** @param {Key} key */
function scopesOf({ scopes }) {
  return scopes.length >= Object.keys(t.scopes).length ? t.allScopes : scopes.join(', ')
}

/** @param {Key} key */
function expiryOf({ expires_at: expires, revoked_at: revoked }) {
  if (revoked !== null) return t.revokedOn(dateOf(revoked))
  return expires === null ? t.never : h('span', { title: momentOf(expires) }, ago(expires))
}
