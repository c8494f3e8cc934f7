// Replaces, adds or removes top-level members of a JSON body and leaves every other byte as it is: numbers beyond 2^53,
// unknown keys, their order, white space. It does not copy a large body.

import type { JsonScan } from './scan.ts'

/** By key: the JSON text of the new value; undefined removes the member. */
export type Edits = ReadonlyMap<string, string | undefined>

/** Up to this size, copying the pieces together costs less than several writes. */
const joinedBytes = 64 * 1024

/** Returns the new body in pieces; the pieces of a large body are views of `body`. */
export function spliceBody(body: Buffer, scan: JsonScan, edits: Edits): readonly Buffer[] {
  const pieces = splicedPieces(body, scan, edits)
  return body.length <= joinedBytes ? [Buffer.concat(pieces)] : pieces
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
    // The removed members after the last kept one are removed together below, with the comma before them.
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
