// POST /api/files/upload: one file by multipart/form-data, stored as it comes.

import { refOf } from '../caller.ts'
import { toFileObject } from '../files/file-row.ts'
import { quotaOf } from '../files/quota.ts'
import { filesPath } from '../files/shelf.ts'
import type { Shelf } from '../files/shelf.ts'
import type { Gateway } from '../gateway.ts'
import type { Route } from '../plugin.ts'
import type { FilesConfig } from './files.ts'

export function uploadRoute(gateway: Gateway, shelf: Shelf, config: FilesConfig): Route {
  const { metrics } = gateway
  return {
    method: 'POST',
    path: `${filesPath}/upload`,
    access: 'files',
    body: 'stream',
    async serve(x) {
      if (!x.incoming) throw new TypeError('a stream route without a request')
      const row = await shelf.receive(x.incoming, {
        ref: refOf(x),
        quotaBytes: quotaOf(gateway.config, x),
        query: x.query,
        maxBytes: config.max_bytes,
        idleMs: gateway.config.limits.uploadIdleMs,
        allow: config.allow,
        signal: x.signal,
        onBytes: (count) => metrics.uploadBytes.inc(count),
      })
      const headers = { Location: `${filesPath}/${row.id}` }
      return { status: 201, headers, body: JSON.stringify(toFileObject(row)) }
    },
  }
}
