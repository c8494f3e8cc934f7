// Ends a connection whose client is still sending. Closing it at once would reset it, and the client would never see
// the answer that was written. So a little more is read and thrown away first.

import type { Readable } from 'node:stream'

const lingerBytes = 1024 * 1024
const lingerMs = 2000

/** Calls `close` once: when the source has ended, or after 1 MiB or 2 s. */
export function linger(source: Readable, close: () => void): void {
  if (source.readableEnded || source.destroyed) return close()
  let bytes = 0
  const finish = () => {
    clearTimeout(timer)
    source.off('data', onData).off('end', finish).off('close', finish)
    close()
  }
  const onData = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > lingerBytes) finish()
  }
  const timer = setTimeout(finish, lingerMs)
  source.on('data', onData).on('end', finish).on('close', finish)
  source.resume()
}
