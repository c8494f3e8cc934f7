// Origins for a browser to be at: the gateway behind a door that adds the key, which a browser can't send by itself when
// it opens a URL; a plain server of the same files; and a stranger's pages. Each has a page that takes a file in every
// way a page can, and hears of scripts that ran.

import { request } from 'node:http'
import type { RequestListener } from 'node:http'
import { activeFiles } from '../../test/fixtures/uploads/active.ts'
import { openOrigin } from '../origin.ts'

export interface Site {
  readonly origin: string
  /** A page that takes the file at this URL; its ways are named after `from`. */
  pageOf(url: string, from: string): string
  /** What scripts said of themselves so far: `way, origin`. */
  readonly ran: readonly string[]
}

/** Answers of the gateway as they come, byte for byte. */
export function openDoor(
  undo: AsyncDisposableStack,
  { url, key }: { readonly url: string; readonly key: string },
): Promise<Site> {
  return openSite(undo, (req, res) => {
    const headers = { ...req.headers, authorization: `Bearer ${key}` }
    const asked = request(url + (req.url ?? ''), { method: req.method ?? 'GET', headers })
    asked.on('response', (answer) => {
      res.writeHead(answer.statusCode ?? 0, answer.rawHeaders)
      answer.pipe(res)
    })
    asked.on('error', () => res.destroy())
    // A browser that wants no download leaves.
    res.on('close', () => asked.destroy())
    req.pipe(asked)
  })
}

/** The files as most web servers have them: typed by their names, and nothing said beyond that. */
export function openPlain(undo: AsyncDisposableStack): Promise<Site> {
  return openSite(undo, (req, res) => {
    const { pathname } = new URL(req.url ?? '', 'http://host')
    const file = activeFiles[pathname.slice(1)]
    if (!file) return res.writeHead(404).end()
    return res.writeHead(200, { 'Content-Type': file.plainType }).end(file.content)
  })
}

/** Pages alone. */
export function openStranger(undo: AsyncDisposableStack): Promise<Site> {
  return openSite(undo, (_req, res) => res.writeHead(404).end())
}

async function openSite(undo: AsyncDisposableStack, serve: RequestListener): Promise<Site> {
  const ran: string[] = []
  const origin = await openOrigin(undo, (req, res) => {
    const { pathname, searchParams } = new URL(req.url ?? '', 'http://host')
    const read = (name: string) => searchParams.get(name) ?? ''
    if (pathname === '/ran') {
      ran.push(`${read('way')}, ${read('origin')}`)
      res.writeHead(204).end()
    } else if (pathname === '/page') {
      res.writeHead(200, { 'Content-Type': 'text/html' }).end(page(read('url'), read('from')))
    } else serve(req, res)
  })
  const pageOf = (url: string, from: string) =>
    `${origin}/page?${new URLSearchParams({ url, from })}`
  return { origin, pageOf, ran }
}

function page(url: string, from: string): string {
  return `<!doctype html><title>host</title><body><script>
const by = (way) => ${JSON.stringify(`${url}${url.includes('?') ? '&' : '?'}way=${from}-`)} + way
const add = (tag, fields) => document.body.append(Object.assign(document.createElement(tag), fields))
const attempt = async (what) => { try { await what() } catch {} }
add('iframe', { src: by('iframe') })
add('embed', { src: by('embed') })
add('object', { data: by('object') })
add('img', { src: by('img') })
add('video', { src: by('video') })
add('script', { src: by('script') })
add('script', { src: by('module'), type: 'module' })
add('link', { href: by('style'), rel: 'stylesheet' })
attempt(() => new Worker(by('worker')))
attempt(() => new Worker(URL.createObjectURL(new Blob(['importScripts("' + by('import') + '")']))))
attempt(() => navigator.serviceWorker.register(by('service')))
</script>`
}
