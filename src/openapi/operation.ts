// What a route of the public port is for its users: who may call it, what it takes, what it answers, and how it refuses.
// docs/api.md has its section from this, and the OpenAPI document its operation. test/docs-api.ts compares it with the
// route that runs; what any route may refuse stands once, in refusals.ts.

import type { ErrorCode } from '../errors.ts'
import type { Route } from '../exchange.ts'
import type { Field, Fields, JsonSchema } from './fields.ts'

/** A parameter of a query, which may always be absent. */
export interface QueryField extends Field {
  /** For the table of docs/api.md: what counts when it is absent. */
  readonly preset?: string
}

export type Query = Readonly<Record<string, QueryField>>

interface JsonBody {
  readonly kind: 'json'
  readonly schema: JsonSchema
  /** For the table of docs/api.md: the body's fields; `schema` is that table where it has sentences of its own. */
  readonly fields?: Fields | 'schema'
  /** No body means the same as `{}`. */
  readonly isOptional?: boolean
}

interface FormBody {
  readonly kind: 'form'
  readonly schema: JsonSchema
  readonly fields: Fields
}

export interface GoodAnswer {
  /** Goes on after `200: `, in Markdown. */
  readonly says: string
  /** By media type; no content, no entry. */
  readonly content?: Readonly<Record<string, JsonSchema>>
  /** Names of rows of headers.ts, beside those that every answer has. */
  readonly headers?: readonly string[]
}

/** Each with what docs/api.md adds to its code, mostly nothing. */
export type Codes = Readonly<Partial<Record<ErrorCode, string>>>

export interface Operation {
  /** For generators of clients. */
  readonly id: string
  /** A few words. */
  readonly title: string
  readonly access: Exclude<Route['access'], 'admin-token'>
  readonly query?: Query
  /** docs/api.md has the whole table of the query here, under this name; otherwise, that of lists stands under Conventions. */
  readonly queryAnchor?: string
  /** What the parameters of the path are, where groups.ts does not say it. */
  readonly params?: Readonly<Record<string, string>>
  /** Rows of headers.ts that the request may have, beside those that every request may have. */
  readonly headers?: readonly string[]
  readonly body?: JsonBody | FormBody
  /** Takes an Idempotency-Key. */
  readonly repeats?: boolean
  /** Whole paragraphs of Markdown, before what is answered. */
  readonly text?: string
  /** By status, below 400. */
  readonly replies: Readonly<Record<number, GoodAnswer>>
  /** Of this route; not those that any route may have. */
  readonly codes?: Codes
  /** Paragraphs after what is answered. */
  readonly after?: string
  /** 429 and 503 may be pages, for people. */
  readonly refusesWithPage?: boolean
  /** A backend's own refusal may come through. */
  readonly passesRefusals?: boolean
}

/** By method and path: `GET /v1/models`; paths that do the same stand together, with commas: `POST /v1/chat, /v1/chat/completions`. */
export type Operations = Readonly<Record<string, Operation>>

export interface RouteLine {
  readonly method: string
  readonly paths: readonly string[]
}

export function parseLine(line: string): RouteLine {
  const [method = '', rest = ''] = line.split(/ (.*)/s)
  return { method, paths: rest.split(', ') }
}

export const json = (schema: JsonSchema): GoodAnswer['content'] => ({ 'application/json': schema })
