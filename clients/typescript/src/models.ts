// The models that a key may use.

import { listAt } from './list.ts'
import type { List } from './list.ts'
import { pathTo } from './transport.ts'
import type { CallOptions, Transport } from './transport.ts'

/** Balance tokens for each model token; `request` for each request. */
export interface ModelPrice {
  readonly input: number
  readonly output: number
  /** For tokens of the prompt that the backend had cached. */
  readonly cached_input: number
  readonly request: number
}

export interface Model {
  readonly id: string
  readonly object: 'model'
  readonly created?: number
  readonly owned_by?: string
  readonly price?: ModelPrice
  /** In model tokens, as the next one. */
  readonly context_window?: number
  readonly max_output_tokens?: number
  /** `text`, `image` …: what messages of a session may have attached. */
  readonly accepts?: readonly string[]
  /** `chat`, `embeddings` …: what of `/v1` it serves. */
  readonly endpoints?: readonly string[]
  readonly [name: string]: unknown
}

export class Models {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  list(options?: CallOptions): List<Model> {
    return listAt(this.#transport, pathTo('v1', 'models'), { options })
  }

  async retrieve(id: string, options?: CallOptions): Promise<Model> {
    return await this.#transport.json({ method: 'GET', path: pathTo('v1', 'models', id) }, options)
  }
}
