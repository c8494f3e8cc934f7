// The models that a key may use.

import { listAt } from './list.ts'
import type { List } from './list.ts'
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
    return listAt(this.#transport, pathTo('v1', 'models'), { options })
  }

  async retrieve(id: string, options?: CallOptions): Promise<Model> {
    return await this.#transport.json({ method: 'GET', path: pathTo('v1', 'models', id) }, options)
  }
}
