// What is around every view: who is logged in, the navigation, the way out.

import { h, icon } from './dom.js'
import { texts } from './texts.js'
import { views } from './views.js'

/**
 * @param {{ me: import('./main.js').Me, onLogout: () => Promise<void> }} options
 */
export function shell({ me, onLogout }) {
  const links = views.map(({ name }) =>
    // With the slash it is a link to a view, not to an element of this page. axe, which tests accessibility, goes by
    // it, too.
    h('a', { href: `#/${name}` }, icon(name), h('span', {}, texts.views[name])),
  )
  const notices = h('div', { class: 'shell-notices' })
  const main = h('main', { id: 'main' })
  const skip = h('a', { href: '#main', class: 'skip', onclick: toMain }, texts.skip)
  function toMain(/** @type {Event} */ event) {
    // The part behind # names the view, so that the browser must not follow this link.
    event.preventDefault()
    main.querySelector('h1')?.focus()
  }
  const element = h(
    'div',
    { class: 'shell' },
    skip,
    h(
      'header',
      { class: 'side' },
      h(
        'div',
        { class: 'who' },
        h('span', { class: 'mark', 'aria-hidden': 'true' }, initialOf(me.name)),
        h('div', {}, h('strong', {}, me.name), h('span', {}, texts.plan(me.plan))),
      ),
      h('nav', { 'aria-label': texts.navigation }, links),
      me.return_url &&
        h('a', { class: 'back', href: me.return_url }, texts.back(new URL(me.return_url).host)),
      h(
        'button',
        { type: 'button', class: 'quiet leave', onclick: () => void onLogout() },
        icon('out'),
        texts.logOut,
      ),
    ),
    h('div', { class: 'middle' }, notices, main),
  )
  return {
    element,
    /** @param {string} name */
    select(name) {
      views.forEach((view, i) => {
        if (view.name === name) links[i]?.setAttribute('aria-current', 'page')
        else links[i]?.removeAttribute('aria-current')
      })
      notices.replaceChildren()
      // On a phone the navigation scrolls sideways, and the chosen link should be in sight.
      links
        .find((link) => link.hasAttribute('aria-current'))
        ?.scrollIntoView({ block: 'nearest', inline: 'center' })
    },
    /** @param {Node[]} content */
    fill: (...content) => main.replaceChildren(...content),
    /** @param {Node} notice */
    tell: (notice) => notices.replaceChildren(notice),
  }
}

/** @param {string} name */
function initialOf(name) {
  return String.fromCodePoint(name.trim().codePointAt(0) ?? 63).toUpperCase()
}
