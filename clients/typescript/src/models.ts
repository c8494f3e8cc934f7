// The models that a key may use.

import { List } from './list.ts'
import { pathTo } from './transport.ts'
import type { CallOptions, Transport } from './transport.ts'

export interface Model {
  readonly id: string
  readonly object: 'model'
  readonly created?: number
  readonly owned_by?: string
  readonly [name: string]: unknown
}

export class Models {
  readonly #transport: Transport

  /** @internal */
  constructor(transport: Transport) {
    this.#transport = transport
  }

  list(options?: CallOptions): List<Model> {
    const call = { method: 'GET', path: pathTo('v1', 'models') } as const
    return new List((query) => this.#transport.json({ ...call, query }, options))
  }

  async retrieve(id: string, options?: CallOptions): Promise<Model> {
    return await this.#transport.json({ method: 'GET', path: pathTo('v1', 'models', id) }, options)
  }
}
