// The origins that the browser visits: a proxy of the gateway that adds the key, since a browser can't send the key
// when it opens a URL; a plain server of the same files; and a stranger's pages. Each has a page that loads a file in
// every way a page can, and receives the reports of scripts that ran.

import { request } from 'node:http'
import type { RequestListener } from 'node:http'
import { activeFiles } from '../../test/fixtures/uploads/active.ts'
import { openOrigin } from '../origin.ts'

export interface Site {
  readonly origin: string
  /** The address of a page that loads the file at this URL; the names of its ways begin with `from`. */
  pageOf(url: string, from: string): string
  /** Reports of scripts so far: `way, origin`. */
  readonly ran: readonly string[]
}

/** Passes on the gateway's answers as they come, byte for byte. */
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
    // A browser that does not want a download closes the connection.
    res.on('close', () => asked.destroy())
    req.pipe(asked)
  })
}

/** Serves the files as most web servers do: the type comes from the name, and there are no further headers. */
export function openPlain(undo: AsyncDisposableStack): Promise<Site> {
  return openSite(undo, (req, res) => {
    const { pathname } = new URL(req.url ?? '', 'http://host')
    const file = activeFiles[pathname.slice(1)]
    if (!file) return res.writeHead(404).end()
    return res.writeHead(200, { 'Content-Type': file.plainType }).end(file.content)
  })
}

/** Serves pages only. */
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
