// POST /api/files/upload: one file by multipart/form-data, stored while it arrives.

import { answering, json, refOf } from '../../exchange.ts'
import type { Exchange, Route } from '../../exchange.ts'
import { toFileObject } from '../../files/file-row.ts'
import { quotaOf } from '../../accounts/plan.ts'
import { filesPath } from '../../files/shelf.ts'
import type { Shelf } from '../../files/shelf.ts'
import type { Gateway } from '../../plugin.ts'

export interface Uploads {
  readonly max_bytes: number
  /** Content types; ranges such as `image/*` are possible. */
  readonly allow: readonly string[]
}

export function uploadRoute(gateway: Gateway, shelf: Shelf, config: Uploads): Route {
  const { metrics } = gateway
  const { limits } = gateway.config
  const receive = (x: Exchange) => {
    if (!x.incoming) throw new TypeError('a stream route without a request')
    return shelf.receive(x.incoming, {
      ref: refOf(x),
      ...quotaOf(gateway.config, x),
      query: x.query,
      maxBytes: config.max_bytes,
      idleMs: limits.uploadIdleMs,
      rateBytes: limits.uploadRateBytes,
      allow: config.allow,
      signal: x.signal,
      onBytes: (count) => metrics.uploadBytes.inc(count),
    })
  }
  return {
    method: 'POST',
    path: `${filesPath}/upload`,
    access: 'files',
    query: ['session_id'],
    body: 'stream',
    begin: answering(async (x) => {
      const row = await receive(x)
      return json(toFileObject(row), 201, { Location: `${filesPath}/${row.id}` })
    }),
  }
}
