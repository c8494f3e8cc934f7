// Opens files in a browser in every way there is, and reports which scripts ran: by what they wrote to the console of
// any page, frame or worker, by the requests they made and by the cookies they left.

import { setTimeout as pause } from 'node:timers/promises'
import type { Chromium, Heard } from '../chromium.ts'
import type { Site } from './sites.ts'

/** How long a page may take to load with its frames; a page whose frames become downloads never reports its load. */
const loadMs = 3000
/** How long the browser must be quiet before what a page has begun counts as ended. */
const quietMs = 400

/** Resolves with `way, origin` of each script that ran, and `cookie` if one was set. */
export async function visit(
  chromium: Chromium,
  { site, stranger, path }: { readonly site: Site; readonly stranger: Site; readonly path: string },
): Promise<readonly string[]> {
  const url = site.origin + path
  const { browserContextId } = await chromium.send('Target.createBrowserContext')
  await chromium.send('Browser.setDownloadBehavior', { behavior: 'deny', browserContextId })
  const heard = new Set<string>()
  const before = [site.ran.length, stranger.ran.length] as const
  const stop = hear(chromium, (text) => heard.add(text))
  const pages = [
    `${url}${path.includes('?') ? '&' : '?'}way=top`,
    site.pageOf(url, 'own'),
    stranger.pageOf(url, 'strange'),
  ]
  for (const page of pages) await open(chromium, page, browserContextId)
  stop()
  for (const said of site.ran.slice(before[0])) heard.add(said)
  for (const said of stranger.ran.slice(before[1])) heard.add(said)
  const { cookies } = await chromium.send('Storage.getCookies', { browserContextId })
  if ((cookies as readonly unknown[]).length > 0) heard.add('cookie')
  await chromium.send('Target.disposeBrowserContext', { browserContextId })
  return [...heard].sort()
}

/** Opens the page, and waits until what it began has had its time. */
async function open(chromium: Chromium, url: string, browserContextId: unknown): Promise<void> {
  const target = { url: 'about:blank', browserContextId }
  const { targetId } = await chromium.send('Target.createTarget', target)
  const attached = await chromium.send('Target.attachToTarget', { targetId, flatten: true })
  const session = String(attached.sessionId)
  await watch(chromium, session)
  await chromium.send('Page.enable', {}, session)
  const load = Promise.withResolvers<void>()
  const stop = hearEvents(chromium, ({ method, sessionId }) => {
    if (method === 'Page.loadEventFired' && sessionId === session) load.resolve()
  })
  const { isDownload, errorText } = await chromium.send('Page.navigate', { url }, session)
  const isShown = isDownload !== true && errorText === undefined
  if (isShown) await Promise.race([load.promise, pause(loadMs)])
  await pause(quietMs)
  stop()
  await chromium.send('Target.closeTarget', { targetId })
}

/** Frames and workers wait to run until they are watched, too. */
async function watch(chromium: Chromium, session: string): Promise<void> {
  const attach = { autoAttach: true, waitForDebuggerOnStart: true, flatten: true }
  await Promise.all([
    chromium.send('Runtime.enable', {}, session),
    chromium.send('Target.setAutoAttach', attach, session),
  ])
}

function hear(chromium: Chromium, take: (text: string) => void): () => void {
  return hearEvents(chromium, ({ method, params }) => {
    if (method === 'Target.attachedToTarget') {
      const session = String(params.sessionId)
      const watched = watch(chromium, session)
      const go = chromium.send('Runtime.runIfWaitingForDebugger', {}, session)
      // A target that has gone already needs no watching; some answer only when they end.
      Promise.all([watched, go]).catch(() => {})
    }
    if (method === 'Runtime.consoleAPICalled') {
      const [first] = params.args as readonly { readonly value?: unknown }[]
      const [, way, origin] = /^RAN (\S+) (\S+)$/.exec(String(first?.value)) ?? []
      if (way !== undefined) take(`${way}, ${origin}`)
    }
  })
}

function hearEvents(chromium: Chromium, take: (event: Heard) => void): () => void {
  let isOn = true
  chromium.listen((event) => {
    if (isOn) take(event)
  })
  return () => (isOn = false)
}
