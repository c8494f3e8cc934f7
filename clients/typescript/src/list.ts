// Lists: all pages, one after another as the caller reads them, or one page. Keeps no more than a page.

import { TollgateError } from './errors.ts'
import type { CallOptions, Transport } from './transport.ts'

export interface ListParams {
  /** Items of a page: 1 to 100, by default 20. */
  readonly limit?: number | undefined
  /** Only items after this id. */
  readonly after?: string | undefined
  /** Only items before this id: the pages go backwards. */
  readonly before?: string | undefined
  readonly order?: 'asc' | 'desc' | undefined
}

export interface Page<T> {
  readonly object: 'list'
  readonly data: readonly T[]
  readonly first_id?: string | null
  readonly last_id?: string | null
  readonly has_more?: boolean
  readonly [name: string]: unknown
}

/** `after` or `before` selects the page; without them it is the first. */
type Turn = Pick<ListParams, 'after' | 'before'>
type ReadPage<T> = (turn: Turn) => Promise<Page<T>>

/**
 * What a list call returns. `for await (const item of list)` goes through the items of all pages, `list.pages()`
 * through the pages; `await list` is the first page. No request is sent before that.
 */
export class List<T> implements AsyncIterable<T>, PromiseLike<Page<T>> {
  readonly #read: ReadPage<T>
  readonly #isBackward: boolean

  /** @internal */
  constructor(read: ReadPage<T>, { before }: Turn = {}) {
    this.#read = read
    this.#isBackward = before !== undefined
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, undefined> {
    for await (const page of this.pages()) yield* page.data
    return undefined
  }

  async *pages(): AsyncGenerator<Page<T>, undefined> {
    let cursor: string | undefined
    for (;;) {
      const page = await this.#page(cursor)
      yield page
      if (page.has_more !== true) return undefined
      const next = this.#cursorOf(page)
      // A list must not be silently incomplete, and a server that repeats a page must not be asked for ever.
      if (next === undefined || next === cursor) {
        throw new TollgateError('The list has more, and does not say where it goes on.')
      }
      cursor = next
    }
  }

  // oxlint-disable-next-line unicorn/no-thenable -- `await list` is its first page
  then<Value = Page<T>, Reason = never>(
    onPage?: ((page: Page<T>) => Value | PromiseLike<Value>) | null,
    onError?: ((error: unknown) => Reason | PromiseLike<Reason>) | null,
  ): Promise<Value | Reason> {
    return this.#page(undefined).then(onPage, onError)
  }

  async #page(cursor: string | undefined): Promise<Page<T>> {
    const turn = this.#isBackward ? { before: cursor } : { after: cursor }
    const page = await this.#read(cursor === undefined ? {} : turn)
    if (Array.isArray(page?.data)) return page
    throw new TollgateError('The answer is no list.')
  }

  #cursorOf({ first_id, last_id, data }: Page<T>): string | undefined {
    const item = this.#isBackward ? data[0] : data.at(-1)
    const id = this.#isBackward ? first_id : last_id
    return id || (item as { readonly id?: string } | undefined)?.id || undefined
  }
}

/** The list at this path; `query` is sent with the request for each page. @internal */
export function listAt<T>(
  transport: Transport,
  path: string,
  { query = {}, options }: { readonly query?: object; readonly options?: CallOptions | undefined },
): List<T> {
  const read: ReadPage<T> = (turn) =>
    transport.json({ method: 'GET', path, query: { ...query, ...turn } }, options)
  return new List(read, query)
}
