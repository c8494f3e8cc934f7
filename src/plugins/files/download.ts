// GET and HEAD of a file: its content, or a part of it, or a redirect to the store.

import { planDownload } from '../../files/download/download.ts'
import type { Download } from '../../files/download/download.ts'
import { objectName } from '../../files/file-row.ts'
import type { FileRow } from '../../files/file-row.ts'
import { filesPath } from '../../files/shelf.ts'
import type { Shelf } from '../../files/shelf.ts'
import type { Gateway } from '../../plugin.ts'
import { answering, refOf } from '../../exchange.ts'
import type { Answer, Route } from '../../exchange.ts'

/** How downloads of large files are redirected to the store. */
export interface Redirects {
  readonly redirect: 'never' | 'presigned'
  /** Bytes. */
  readonly redirect_above: number
  /** ms. */
  readonly redirect_expires: number
}

export function downloadRoute({ store }: Gateway, shelf: Shelf, config: Redirects): Route {
  const isRedirected = ({ bytes }: FileRow, { hasBody }: Download) =>
    hasBody && config.redirect === 'presigned' && bytes > config.redirect_above
  return {
    method: 'GET',
    path: `${filesPath}/:id`,
    access: 'files',
    query: ['disposition'],
    body: 'none',
    begin: answering(async (x) => {
      const ref = refOf(x)
      const file = await shelf.book.read(ref, x.params.id ?? '')
      const plan = planDownload(file, x)
      const { status, headers } = plan
      if (store.presign && isRedirected(file, plan)) {
        const url = await store.presign(objectName(ref, file.id), {
          expiresS: Math.ceil(config.redirect_expires / 1000),
          contentType: headers['Content-Type'] ?? '',
          disposition: headers['Content-Disposition'] ?? '',
        })
        return redirect(url)
      }
      if (!plan.hasBody) return { status, headers, body: '' }
      return { status, headers, content: await shelf.open(ref, file.id, plan.range) }
    }),
  }
}

/** A client that follows the redirect to another host drops its key, and sends its range and conditions again. */
function redirect(url: string): Answer {
  return { status: 302, headers: { Location: url, 'Cache-Control': 'no-store' }, body: '' }
}
