// Makes elements. Texts become text nodes and nothing is ever parsed as HTML, so names and notes with markup do nothing.

/**
 * @typedef {Node | string | null | undefined | false} Child not a number: `count && …` would show the 0
 * @typedef {Record<string, unknown>} Props
 */

/** Set as properties, because their attributes only give the first value. */
const asProperty = new Set(['value', 'checked', 'disabled', 'required', 'hidden', 'selected'])

/**
 * `on…` properties are listeners; null, undefined and false leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Props} [props]
 * @param {...(Child | readonly Child[])} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(props)) setProp(element, name, value)
  append(element, children)
  return element
}

/**
 * @param {HTMLElement} element
 * @param {string} name
 * @param {unknown} value
 */
function setProp(element, name, value) {
  if (value === undefined || value === null) return
  if (typeof value === 'function') {
    element.addEventListener(name.slice(2), /** @type {EventListener} */ (value))
  } else if (asProperty.has(name)) {
    Object.assign(element, { [name]: value })
  } else if (value !== false) {
    element.setAttribute(name, value === true ? '' : String(value))
  }
}

/**
 * @param {Node} parent
 * @param {readonly (Child | readonly Child[])[]} children
 */
function append(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue
    parent.appendChild(child instanceof Node ? child : document.createTextNode(child))
  }
}

/** Paths in a square of 24 by 24, drawn with a stroke. */
const pictures = {
  overview: 'M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z',
  keys: 'M13.5 8.5a5 5 0 1 1-10 0 5 5 0 0 1 10 0ZM12 12l8 8M16 16l2.500-2.500',
  usage: 'M4 20V4M4 20h16M9 16v-5M13 16V7M17 16v-3',
  transactions: 'M6 3h12v18l-3-2-3 2-3-2-3 2zM9 8h6M9 12h6',
  playground: 'M4 5h16v11H10l-4 4v-4H4z',
  limits: 'M4 17a8 8 0 1 1 16 0M12 17l4-5',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  attach: 'M20 11.500l-8.500 8.500a5 5 0 0 1-7-7l9-9a3.500 3.500 0 0 1 5 5l-9 9a2 2 0 0 1-3-3l8-8',
  more: 'M5 12h.01M12 12h.01M19 12h.01',
  close: 'M6 6l12 12M18 6 6 18',
  out: 'M14 4h6v16h-6M4 12h11M8 8l-4 4 4 4',
}

/** @typedef {keyof typeof pictures} Picture */

/**
 * @param {Picture} name
 * @returns {SVGElement}
 */
export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg')
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path')
  svg.setAttribute('viewBox', '0 0 24 24')
  svg.setAttribute('class', 'icon')
  svg.setAttribute('aria-hidden', 'true')
  path.setAttribute('d', pictures[name])
  svg.append(path)
  return svg
}

/**
 * The place of what `announce` tells. Each dialog has its own, because nothing outside of an open modal dialog is read
 * out.
 */
export const announcer = () => h('div', { class: 'unseen announced', role: 'status' })

/**
 * Tells those who can't see the page what has just happened.
 * @param {string} text
 */
export function announce(text) {
  const place = [...document.querySelectorAll('.announced')].at(-1)
  if (place) place.textContent = text
}

/**
 * Gives the focus to what is now in the place of a control, by its `data-control`; else to `instead`, else to the heading.
 * @param {Element | null} control
 * @param {HTMLElement} [instead]
 */
export function focusOn(control, instead) {
  const name = control?.getAttribute('data-control') ?? ''
  const found = document.querySelector(`[data-control="${CSS.escape(name)}"]`)
  const next = found ?? instead ?? document.querySelector('main h1')
  if (next instanceof HTMLElement) next.focus()
}

/**
 * Draws a place anew. If the focus was in it, it goes where `focusOn` says.
 * @param {HTMLElement} place
 * @param {readonly Child[]} children
 * @param {HTMLElement} [instead]
 */
export function redraw(place, children, instead) {
  const focused = document.activeElement
  const isFocused = place.contains(focused)
  place.replaceChildren()
  append(place, children)
  if (isFocused) focusOn(focused, instead)
}
