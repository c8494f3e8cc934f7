// The page's life: a link in the address logs in, `me` says who is here, the part behind # says what is shown. A session
// that ends in the middle shows the log-in screen, whatever was open.

import { ApiError, account } from './api.js'
import { closeDialogs } from './dialogs.js'
import { announce, h } from './dom.js'
import { problem } from './problems.js'
import { shell } from './shell.js'
import { signIn } from './sign-in.js'
import { texts } from './texts.js'
import { views } from './views.js'

/**
 * @typedef {object} Me
 * @property {string} id
 * @property {string} name
 * @property {string} plan
 * @property {string} status
 * @property {import('./format.js').Currency | null} currency
 * @property {boolean} low_balance
 * @property {string | null} return_url
 * @property {{ id: string, accepts: string[] }[]} models
 * @property {string | null} playground_key_id
 *
 * @typedef {object} Context what a view gets
 * @property {Me} me
 * @property {AbortSignal} signal aborted when the view goes
 * @property {URLSearchParams} query of the part behind #
 * @property {(query: Record<string, string>) => void} keep writes the query into the address, without a new view
 * @property {(error: unknown) => boolean} isOver shows the log-in screen if the session has ended
 */

const app = document.getElementById('app') ?? document.body
/** @type {ReturnType<typeof shell> | undefined} */
let frame
let leaving = new AbortController()
/** @type {Me | undefined} */
let me

async function start() {
  const { link, code } = takeHash()
  if (code !== undefined) return showSignIn({ error: new ApiError(code) })
  try {
    if (link !== undefined) await account('login', { body: { link } })
  } catch (error) {
    return showSignIn({ error })
  }
  await enter()
}

/**
 * A link's secret, or why an identity provider's log-in failed. The secret leaves the address before anything else
 * happens: it must not stay in the history or in a bookmark.
 */
function takeHash() {
  const [, kind, value] = /^#(link|error)=(.*)$/.exec(location.hash) ?? []
  if (kind !== undefined) history.replaceState(null, '', location.pathname)
  return kind === 'link' ? { link: value } : { code: kind && value }
}

async function enter() {
  try {
    me = await account('me')
  } catch (error) {
    if (isSignedOut(error)) return showSignIn({})
    return app.replaceChildren(
      h(
        'main',
        { class: 'alone' },
        problem(error, () => void enter()),
      ),
    )
  }
  frame = shell({ me: /** @type {Me} */ (me), onLogout: logOut })
  app.replaceChildren(frame.element)
  await show({ isFirst: true })
}

/** @param {Me} known */
async function checkMe({ id }) {
  try {
    const now = /** @type {Me} */ (await account('me'))
    if (now.id !== id) location.reload()
  } catch (error) {
    isOver(error)
  }
}

/** @param {{ isFirst?: boolean }} options */
async function show({ isFirst = false }) {
  if (!frame || !me) return
  closeDialogs()
  leaving.abort()
  leaving = new AbortController()
  const { signal } = leaving
  const [path = '', search = ''] = location.hash.replace(/^#\/?/, '').split('?')
  const [name = '', ...rest] = path.split('/')
  const view = views.find((one) => one.name === name) ?? views[0]
  frame.select(view.name)
  const title = texts.views[view.name]
  document.title = `${title} · ${me.name}`
  const keep = (/** @type {Record<string, string>} */ query) => {
    const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== ''))
    history.replaceState(
      null,
      '',
      `#${[view.name, ...rest].join('/')}${words.size > 0 ? `?${words}` : ''}`,
    )
  }
  const context = { me, signal, query: new URLSearchParams(search), keep, isOver }
  const heading = h('h1', { tabindex: '-1' }, title)
  frame.fill(
    heading,
    h('div', { class: 'loading', 'aria-label': texts.loading }, h('i'), h('i'), h('i')),
  )
  // A reader who has followed a link wants to read on at the heading; one who has just opened the page has chosen
  // nothing yet.
  if (!isFirst) heading.focus({ preventScroll: true })
  scrollTo(0, 0)
  try {
    const content = await view.open(context, rest)
    if (!signal.aborted) frame.fill(heading, content)
  } catch (error) {
    if (signal.aborted || isOver(error)) return
    frame.fill(
      heading,
      problem(error, () => void show({})),
    )
  }
}

/**
 * @param {unknown} error
 * @returns {boolean}
 */
function isOver(error) {
  if (!isSignedOut(error)) return false
  if (me) showSignIn({ hasEnded: true })
  return true
}

/** @param {unknown} error */
function isSignedOut(error) {
  return error instanceof ApiError && error.isSessionOver
}

async function logOut() {
  try {
    const { url } = /** @type {{ url: string | null }} */ (
      await account('logout', { method: 'POST' })
    )
    sessionStorage.clear()
    // The identity provider's own log-out.
    if (url) return location.assign(url)
  } catch (error) {
    if (isSignedOut(error)) return showSignIn({})
    frame?.tell(problem(error))
    return
  }
  showSignIn({ hasLeft: true })
}

/** @param {import('./sign-in.js').Reason} reason */
function showSignIn(reason) {
  leaving.abort()
  me = undefined
  frame = undefined
  closeDialogs()
  // The key of the playground belongs to the session.
  sessionStorage.clear()
  document.title = texts.signIn.title
  announce(texts.signIn.title)
  app.replaceChildren(signIn({ ...reason, again: () => void enter() }))
}

/** A browser keeps the refusal of a download to itself, so the page asks first whether the session goes on. */
app.addEventListener('click', (event) => {
  const link = event.target instanceof Element && event.target.closest('a[download]')
  if (!(link instanceof HTMLAnchorElement)) return
  event.preventDefault()
  void download(link.href)
})

/** @param {string} href */
async function download(href) {
  try {
    await account('me')
  } catch (error) {
    // After any other failure the download may still work.
    if (isOver(error)) return
  }
  h('a', { download: '', href }).click()
}

addEventListener('hashchange', () => {
  // Somebody has opened a link in a tab that already shows the page.
  if (/^#(link|error)=/.test(location.hash)) return void start()
  if (frame) void show({})
})

/** Another tab has logged out, or in as somebody else. */
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible' && me) void checkMe(me)
})

// A browser may keep the page to show it again, perhaps to somebody else.
addEventListener('pagehide', closeDialogs)
addEventListener('pageshow', ({ persisted }) => {
  if (persisted && me) void checkMe(me)
})

// After the listeners: somebody may choose a view while the first one loads.
void start()
