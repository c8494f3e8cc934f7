// Replaces, adds or removes top-level members of a JSON body and leaves every other byte as it is: numbers beyond 2^53,
// unknown keys, their order, white space.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { JsonScan } from './json-scan.ts'

/** JSON text to put; undefined removes the member. */
export type Edits = ReadonlyMap<string, string | undefined>

/** 31 MiB take 20 ms. */
const atOnceBytes = 4 * 1024 * 1024

/** A promise where the body is so large that it is copied in pieces. */
export function spliceBody(body: Buffer, scan: JsonScan, edits: Edits): Buffer | Promise<Buffer> {
  const pieces = splicedPieces(body, scan, edits)
  return body.length <= atOnceBytes ? Buffer.concat(pieces) : joinInTurns(pieces)
}

function splicedPieces(body: Buffer, scan: JsonScan, edits: Edits): readonly Buffer[] {
  const pieces: Buffer[] = []
  let done = 0
  const replace = (from: number, to: number, text: string) => {
    pieces.push(body.subarray(done, from), Buffer.from(text))
    done = to
  }
  const isRemoved = (key: string) => edits.has(key) && edits.get(key) === undefined
  const members = [...scan.members]
  const lastKept = members.findLastIndex(([key]) => !isRemoved(key))
  for (const [index, [key, member]] of members.entries()) {
    // Those behind the last kept one go together below: the comma before them has to go too.
    if (index > lastKept) break
    const text = edits.get(key)
    if (text !== undefined) replace(member.valueStart, member.valueEnd, text)
    else if (edits.has(key)) replace(member.keyStart, keyStartOf(members[index + 1]), '')
  }
  const tail = members[lastKept]?.[1].valueEnd ?? scan.start
  const removedTo = Math.max(tail, members.at(-1)?.[1].valueEnd ?? 0)
  const added = additions(scan, edits)
  if (added.length > 0 || removedTo > tail) {
    replace(tail, removedTo, (lastKept < 0 || added.length === 0 ? '' : ',') + added.join(','))
  }
  pieces.push(body.subarray(done))
  return pieces
}

async function joinInTurns(pieces: readonly Buffer[]): Promise<Buffer> {
  const whole = Buffer.allocUnsafeSlow(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    for (let from = 0; from < piece.length; from += atOnceBytes) {
      if (at > 0) await nextTurn()
      at += piece.copy(whole, at, from, from + atOnceBytes)
    }
  }
  return whole
}

function keyStartOf(member: readonly [string, { readonly keyStart: number }] | undefined): number {
  return member?.[1].keyStart ?? 0
}

function additions({ members }: JsonScan, edits: Edits): readonly string[] {
  const added: string[] = []
  for (const [key, text] of edits) {
    if (text !== undefined && !members.has(key)) added.push(`${JSON.stringify(key)}:${text}`)
  }
  return added
}
