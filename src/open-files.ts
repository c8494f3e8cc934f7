// How many file descriptors this process has open, sockets included, and how many it may have: from Linux, at each look.
// Elsewhere neither is known. Looking takes a descriptor itself, so a process that has none left cannot look: then all
// are open, and the limit is the one that was read last.

import { readFileSync, readdirSync } from 'node:fs'
import { hasCode } from './errors.ts'

let lastMost = readMost()

/** Read anew, because an operator may change the limit while the process runs. */
export function mostFiles(): number | undefined {
  lastMost = readMost() ?? lastMost
  return lastMost
}

export function openFiles(): number | undefined {
  try {
    // Without the one that looking takes.
    return readdirSync('/proc/self/fd').length - 1
  } catch (error) {
    return hasCode(error, 'EMFILE') ? lastMost : undefined
  }
}

function readMost(): number | undefined {
  try {
    const most = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1]
    return most === undefined ? undefined : Number(most)
  } catch {
    return undefined
  }
}
