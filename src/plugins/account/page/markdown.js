// Markdown of a model as elements. A model repeats what strangers wrote, so its text is hostile: only the elements below
// are kept, links lead away from this site in a tab of their own, and nothing is loaded from elsewhere.

import { h } from './dom.js'
import { loadMarked, loadPurify } from './packages.js'

const tags =
  'a b blockquote br code del em h1 h2 h3 h4 h5 h6 hr i li ol p pre s strong sub sup table tbody td th thead tr ul'.split(
    ' ',
  )
const attributes = ['href', 'start', 'align']

/** A hostile text of this length is parsed in a second or two; the time grows with its square. */
const mostChars = 50_000
/** Lists and quotes that stand in each other, in one line. */
const tooDeep = /^(?:[ \t]*(?:>|[-*+]|\d+[.)])){40}/m

/** @typedef {(text: string) => DocumentFragment} Render */

/** @type {Promise<Render> | undefined} */
let made

/**
 * A text that is too long or nested too deep is shown as it is.
 * @param {string} text
 * @returns {Promise<Node>}
 */
export async function rendered(text) {
  try {
    made ??= make()
    const render = await made
    if (text.length <= mostChars && !tooDeep.test(text)) return render(text)
  } catch {
    // The packages may be there the next time.
    made = undefined
  }
  return h('p', { class: 'said' }, text)
}

async function make() {
  const [{ Marked }, purify] = await Promise.all([loadMarked(), loadPurify()])
  const marked = new Marked({ gfm: true, breaks: true })
  // A pixel of another site would tell that site what the model was asked. The picture's address stays as text.
  marked.use({
    renderer: {
      image: ({ href, text }) => escaped(`${text} (${href})`),
      html: ({ text }) => escaped(text),
    },
  })
  purify.addHook('afterSanitizeAttributes', (node) => {
    if (node.tagName !== 'A') return
    if (!isElsewhere(node.getAttribute('href'))) return node.removeAttribute('href')
    node.setAttribute('target', '_blank')
    node.setAttribute('rel', 'noopener noreferrer nofollow')
  })
  /** @type {Render} */
  return (text) => {
    const html = marked.parse(text, { async: false })
    return purify.sanitize(html, {
      ALLOWED_TAGS: tags,
      ALLOWED_ATTR: attributes,
      ALLOW_DATA_ATTR: false,
      ALLOW_ARIA_ATTR: false,
      RETURN_DOM_FRAGMENT: true,
    })
  }
}

/**
 * A link into this page could log in somebody else.
 * @param {string | null} href
 */
function isElsewhere(href) {
  if (href === null || !URL.canParse(href)) return false
  const { protocol, hostname } = new URL(href)
  // By its host: http:// may lead to https:// here, and a dot at the end to the same host.
  const isHere = hostname.replace(/\.$/, '') === location.hostname
  return ['https:', 'http:', 'mailto:'].includes(protocol) && !isHere
}

/** @param {string} text */
function escaped(text) {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
