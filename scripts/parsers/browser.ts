// A browser with one page that reads streams as it is told. The page comes from a server of its
// own, so its requests to the gateway are cross-origin.

import { readFile } from 'node:fs/promises'
import type { IncomingMessage, RequestListener } from 'node:http'
import { join, resolve } from 'node:path'
import type { Told } from '../../test/fixtures/parsers/reconnecting.ts'
import type { Ask } from '../../test/fixtures/parsers/stage.ts'
import { openChromium } from '../chromium.ts'
import { openOrigin } from '../origin.ts'

export type PageReader = 'fetch' | 'fetchEventSource' | 'EventSource'

export interface Page {
  readonly origin: string
  /** Starts the browser; call it once. Resolves with the browser's version. */
  open(): Promise<string>
  read(reader: PageReader, ask: Ask): Promise<readonly Told[]>
}

const modules = resolve(import.meta.dirname, '../../node_modules')
const served = ['/eventsource-parser/dist/', '/@microsoft/fetch-event-source/lib/esm/']

export async function startPage(undo: AsyncDisposableStack): Promise<Page> {
  const asked = new Mailbox<object>()
  const seen = new Mailbox<readonly Told[] | string>()
  const origin = await openOrigin(undo, pageListener(asked, seen))
  return {
    origin,
    open: async () => (await openChromium(undo, [origin])).version,
    async read(reader, ask) {
      asked.put({ reader, ask })
      const told = await seen.take()
      if (typeof told === 'string') throw new Error(`in the page: ${told}`)
      return told
    },
  }
}

/** A queue: values come out in the order in which they were put in. */
class Mailbox<T> {
  readonly #there: T[] = []
  readonly #waiting: ((value: T) => void)[] = []

  put(value: T): void {
    const take = this.#waiting.shift()
    if (take) take(value)
    else this.#there.push(value)
  }

  async take(): Promise<T> {
    const value = this.#there.shift()
    return value ?? (await new Promise((done) => this.#waiting.push(done)))
  }
}

function pageListener(
  asked: Mailbox<object>,
  seen: Mailbox<readonly Told[] | string>,
): RequestListener {
  return (req, res) => {
    const { url = '' } = req
    const answer = async () => {
      if (url === '/next') return res.end(JSON.stringify(await asked.take()))
      if (url === '/seen') {
        seen.put(JSON.parse(await textOf(req)) as readonly Told[] | string)
        return res.end()
      }
      const isModule = served.some((folder) => url.startsWith(folder)) && !url.includes('..')
      if (!isModule && url !== '/') return res.writeHead(404).end()
      res.setHeader('Content-Type', isModule ? 'text/javascript' : 'text/html')
      // Some files are written for bundlers and import others without the extension.
      const file = url.endsWith('.js') ? url : `${url}.js`
      return res.end(
        await readFile(isModule ? modules + file : join(import.meta.dirname, 'page.html')),
      )
    }
    answer().catch((error: unknown) => res.writeHead(500).end(String(error)))
  }
}

async function textOf(req: IncomingMessage): Promise<string> {
  let text = ''
  for await (const piece of req.setEncoding('utf8')) text += String(piece)
  return text
}
