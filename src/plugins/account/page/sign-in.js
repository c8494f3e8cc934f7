// Shown to people who are not logged in: why, and how to get in. Without OpenID Connect the only way is a link from the
// operator.

import { ApiError, account } from './api.js'
import { h } from './dom.js'
import { problem } from './problems.js'
import { texts } from './texts.js'

/**
 * @typedef {object} Reason
 * @property {unknown} [error] why the link did not work
 * @property {boolean} [hasEnded] the session ended while the page was open
 * @property {boolean} [hasLeft]
 *
 * @typedef {{ oidc: { label: string, start: string } | null }} Config
 */

/** @param {Reason & { again: () => void }} options */
export function signIn({ error, hasEnded, hasLeft, again }) {
  const ways = h('div', { class: 'ways' })
  void account('config').then(
    (config) => ways.replaceChildren(...waysIn(/** @type {Config} */ (config))),
    (failure) => ways.replaceChildren(problem(failure, again)),
  )
  const { signIn: t } = texts
  const isRefused = error instanceof ApiError && error.code === 'invalid_link'
  const said = isRefused
    ? h(
        'div',
        { class: 'notice warn', role: 'alert' },
        h('p', {}, h('strong', {}, t.badLink)),
        h('p', {}, t.badLinkHelp),
      )
    : error !== undefined
      ? problem(error)
      : hasEnded
        ? h('div', { class: 'notice', role: 'alert' }, h('p', {}, t.ended))
        : hasLeft
          ? h('div', { class: 'notice', role: 'status' }, h('p', {}, t.left))
          : null
  return h(
    'main',
    { class: 'alone' },
    h('div', { class: 'panel sign-in' }, h('h1', {}, t.title), said, h('p', {}, t.how), ways),
  )
}

/**
 * @param {Config} config
 * @returns {Node[]}
 */
function waysIn(config) {
  const { oidc } = config
  return oidc
    ? [h('a', { class: 'button primary', href: oidc.start }, texts.signIn.oidc(oidc.label))]
    : []
}
