// A server of its own for a browser to be at, on any port. Ends with the stack it was opened on.

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'

export async function openOrigin(
  undo: AsyncDisposableStack,
  serve: RequestListener,
): Promise<string> {
  const server = createServer(serve)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  undo.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
