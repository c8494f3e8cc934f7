// Looks at the first byte of a connection to an HTTPS listener. A letter begins a request in plain HTTP: that client
// wrote http:// and would otherwise only see an empty reply. Any other connection goes on to TLS, with its first byte.

import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { plain } from '../plain.ts'

export interface FirstByte {
  /** How long the first byte may take. */
  readonly withinMs: number
  /** The socket belongs to `onPlain` from then on; the bytes that it has received are still unread. */
  onPlain(socket: Socket): void
}

/** The server must not listen yet. Node's TLS is a listener on the server's `connection`; it is called after the first byte. */
export function lookAtFirstByte(server: Server, options: FirstByte): void {
  if (plain.has('first-byte')) return
  const secure = server.listeners('connection')
  server.removeAllListeners('connection')
  server.on('connection', (socket: Socket) => {
    whenReadable(socket, options.withinMs, (isLetter) => {
      if (isLetter) return options.onPlain(socket)
      for (const listener of secure) listener.call(server, socket)
    })
  })
}

/** `then` is not called for a connection that ends before its first byte. */
function whenReadable(socket: Socket, withinMs: number, then: (isLetter: boolean) => void): void {
  const ignore = () => undefined
  const end = () => socket.destroy()
  socket.setTimeout(withinMs, end)
  socket.on('error', ignore) // the socket closes after an error
  socket.once('readable', () => {
    const bytes = socket.read() as Buffer | null
    if (bytes === null) return end()
    socket.setTimeout(0, end)
    socket.unshift(bytes)
    const isLetter = letters.test(String.fromCharCode(bytes[0] ?? 0))
    if (!isLetter) socket.off('error', ignore)
    then(isLetter)
  })
}

const letters = /[A-Za-z]/
