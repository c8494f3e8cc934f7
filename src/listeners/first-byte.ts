// The first byte of a connection to an HTTPS listener: a letter is the beginning of a request in plain HTTP, by somebody who
// wrote http:// and would otherwise see no more than an empty reply. All else goes on to TLS, with that byte.

import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { plain } from '../plain.ts'

export interface FirstByte {
  /** So long it may take. */
  readonly withinMs: number
  /** The socket is the caller's from then on; what it has sent is still unread. */
  onPlain(socket: Socket): void
}

/** Of a server that does not listen yet. Node's own server for TLS is a listener on `connection`, to be called later. */
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

/** Not called for a connection that ends first. */
function whenReadable(socket: Socket, withinMs: number, then: (isLetter: boolean) => void): void {
  const ignore = () => undefined
  const end = () => socket.destroy()
  socket.setTimeout(withinMs, end)
  socket.on('error', ignore) // it ends with that
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
