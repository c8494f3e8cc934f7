// Where log lines go. Lines are gathered, so that not every line costs a system call, and the gateway never waits for
// their reader. When the reader takes nothing, or the disk is full, lines are dropped and counted.

import { createWriteStream, fstatSync } from 'node:fs'
import { Socket } from 'node:net'
import type { Writable } from 'node:stream'
import { endsWithin } from './sharing/patience.ts'

/** This many characters are gathered before a write. Every quarter second, whatever is gathered is written. */
const gatheredChars = 32 * 1024
const flushEveryMs = 250
/** This many bytes may wait for a slow reader: at full load, a disk may then stand still for some seconds. */
const waitingBytes = 16 * 1024 * 1024
/** How long the exit waits for a slow reader. */
const closingMs = 500

export interface LogOutput {
  write(line: string): void
  /** The number of lines that were never written. */
  readonly dropped: number
  /** Bytes that were written and that the reader has not taken yet. */
  readonly waiting: number
  /** Writes the lines that are left, if that can be done soon. Never rejects. */
  close(): Promise<void>
}

export function openLogOutput(fd = 1): LogOutput {
  // Opened when the first line is written: a gateway that logs nothing leaves the descriptor alone.
  let opened: Writable | undefined
  let lines: string[] = []
  let chars = 0
  let dropped = 0
  const open = () => {
    const out = writableOf(fd)
    // A full disk may have room later, so the next write opens it again; the reader of a pipe does not come back. The
    // stream is not destroyed, because that would close the descriptor.
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
    get waiting() {
      return opened?.writableLength ?? 0
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

/** Waits until everything is written. Does not close the descriptor, which the process owns; but lets go of it, because a reader that takes nothing would keep the process alive. */
async function ended(out: Writable): Promise<void> {
  const written = new Promise<unknown>((resolve) => out.write('', resolve))
  const isWritten = await endsWithin(written, closingMs)
  if (!isWritten) out.destroy()
  else if (out instanceof Socket) out.unref()
}

/** Not `process.stdout`: that writes to a pipe synchronously, so that a reader that stops would stop the gateway. */
function writableOf(fd: number): Writable {
  const kind = fstatSync(fd)
  const isPipe = kind.isFIFO() || kind.isSocket()
  return isPipe
    ? new Socket({ fd, readable: false, writable: true })
    : createWriteStream('', { fd, autoClose: false })
}
