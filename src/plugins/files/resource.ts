// Files as a resource: listed, described, deleted.

import { toFileObject } from '../../files/file-row.ts'
import type { FileBook } from '../../files/files.ts'
import { filesPath } from '../../files/shelf.ts'
import { pageQuery, parseIdPage } from '../../http/page.ts'
import { invalidParameter } from '../../http/refusals.ts'
import { answering, json, refOf } from '../../exchange.ts'
import type { Answer, Exchange, Route } from '../../exchange.ts'

export function resourceRoutes(book: FileBook): readonly Route[] {
  const route = (
    method: 'GET' | 'DELETE',
    path: string,
    serve: (x: Exchange) => Promise<Answer>,
    query: readonly string[] = [],
  ): Route => ({
    method,
    query,
    path: filesPath + path,
    access: 'files',
    body: 'none',
    begin: answering(serve),
  })
  return [
    route(
      'GET',
      '',
      async (x) => {
        const page = parseIdPage(x.query, 'file')
        return json(await book.list(refOf(x), page, sessionIn(x.query)))
      },
      [...pageQuery, 'session_id'],
    ),
    route('GET', '/:id/metadata', async (x) =>
      json(toFileObject(await book.read(refOf(x), x.params.id ?? ''))),
    ),
    route('DELETE', '/:id', async (x) => {
      await book.remove(refOf(x), x.params.id ?? '')
      return { status: 204, body: '' }
    }),
  ]
}

function sessionIn(query: URLSearchParams): string | undefined {
  const [session, ...others] = query.getAll('session_id')
  if (others.length === 0) return session
  throw invalidParameter('session_id', 'Give "session_id" once.')
}
