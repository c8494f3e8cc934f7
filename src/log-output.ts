// Where log lines go: gathered, so that not each costs a system call, and written without ever waiting for their reader.
// Where the reader takes nothing, or a disk is full, lines are dropped and counted.

import { createWriteStream, fstatSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'

/** So much is gathered before it is written; what is there is written every quarter second in any case. */
const gatheredChars = 32 * 1024
const flushEveryMs = 250
/** So much may wait for a slow reader: at full load a disk may stand still for some seconds. */
const waitingBytes = 16 * 1024 * 1024
/** The exit waits so long for a reader. */
const closingMs = 500

export interface LogOutput {
  write(line: string): void
  /** Lines that were never written. */
  readonly dropped: number
  /** Writes what is left, if that can be done soon. Never rejects. */
  close(): Promise<void>
}

export function openLogOutput(fd = 1): LogOutput {
  // Opened by the first line: a silent gateway leaves the descriptor alone.
  let opened: Writable | undefined
  let lines: string[] = []
  let chars = 0
  let dropped = 0
  const open = () => {
    const out = writableOf(fd)
    // A disk may have room again; a reader that went away does not come back. Not destroyed: that would close the descriptor.
    out.on('error', () => {
      if (!(out instanceof Socket)) opened = undefined
    })
    return out
  }
  const flush = () => {
    if (lines.length === 0) return
    const count = lines.length
    const text = lines.join('')
    lines = []
    chars = 0
    const out = (opened ??= open())
    if (out.destroyed) dropped += count
    else out.write(text, (error) => void (dropped += error ? count : 0))
  }
  const timer = setInterval(flush, flushEveryMs).unref()
  return {
    get dropped() {
      return dropped
    },
    write(line) {
      if (opened && opened.writableLength > waitingBytes) return void dropped++
      lines.push(line)
      chars += line.length
      if (chars >= gatheredChars) flush()
    },
    async close() {
      clearInterval(timer)
      flush()
      if (opened) await ended(opened)
    },
  }
}

/** Not closed, since the descriptor is the process's; but a reader that takes nothing would keep the process alive. */
async function ended(out: Writable): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const timer = setTimeout(resolve, closingMs, false)
  out.write('', () => resolve(true))
  const isWritten = await promise
  clearTimeout(timer)
  if (!isWritten) out.destroy()
  else if (out instanceof Socket) out.unref()
}

/** `process.stdout` writes to a pipe synchronously: a reader that stops would stop the gateway. */
function writableOf(fd: number): Writable {
  const kind = fstatSync(fd)
  const isPipe = kind.isFIFO() || kind.isSocket()
  return isPipe
    ? new Socket({ fd, readable: false, writable: true })
    : createWriteStream('', { fd, autoClose: false })
}
